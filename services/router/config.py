"""Configuration of a router: one TOML file, checked as a whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from libs.config.load import STRICT, ConfigError, ConfigFault, load
from libs.core.lanes import Lane
from libs.rpc.address import split_address
from libs.telemetry.logs import LogFormat, LogLevel
from services.router.policy.lane_rule import DEFAULT_BATCH_PROMPT_TOKENS

# A prompt of 10,000 tokens is some 50 kB of text; a whole conversation with attachments stays far below.
DEFAULT_MAX_REQUEST_BYTES = 8 * 1024 * 1024
# The longest answers take about this long; a rolling restart waits for them.
DEFAULT_DRAIN_GRACE_S = 30.0
# A realtime caller without a deadline of its own is gone after this.
DEFAULT_REALTIME_DEADLINE_S = 30.0
# A batch answer may wait for others of its kind.
DEFAULT_BATCH_DEADLINE_S = 600.0
DEFAULT_AUTO_DEADLINE_S = 120.0
# Telemetry comes ten times a second; three missed seconds are an outage, one is not.
DEFAULT_FRESH_S = 3.0
# An engine whose call failed is passed over for this long, unless its telemetry goes on.
DEFAULT_SUSPECT_S = 1.0
# Batch items of one router in flight; the lane's own limit grows and shrinks below this.
DEFAULT_BATCH_IN_FLIGHT = 8
# What a dead router held runs elsewhere after this; renewed three times within it.
DEFAULT_BATCH_LEASE_S = 30.0
# An item that takes longer is taken for lost and tried again.
DEFAULT_BATCH_ITEM_DEADLINE_S = 600.0
DEFAULT_BATCH_KEEP_DAYS = 30.0
# The first engine and two more: a third failure is hardly the engines' fault.
DEFAULT_MAX_ATTEMPTS = 3

_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

Name = Annotated[str, Field(pattern=_NAME)]
Seconds = Annotated[float, Field(gt=0)]


@dataclass(config=STRICT, kw_only=True)
class LogConfig:
    """How the process logs."""

    level: LogLevel = "info"
    format: LogFormat = "json"


@dataclass(config=STRICT, kw_only=True)
class TracingConfig:
    """host:port of an OTLP collector; without it trace context is only passed on."""

    otlp_endpoint: str | None = None


@dataclass(config=STRICT, kw_only=True)
class ModelConfig:
    """The mesh's model. `tokenizer` is a Hugging Face model folder, or "sim"."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    tokenizer: Annotated[str, Field(min_length=1)]


@dataclass(config=STRICT, kw_only=True)
class LaneRuleConfig:
    """R1: longer prompts are batch work."""

    batch_prompt_tokens: Annotated[int, Field(ge=1)] = DEFAULT_BATCH_PROMPT_TOKENS


@dataclass(config=STRICT, kw_only=True)
class LaneConfig:
    """A lane's pools, in order of preference, and the deadline of calls that bring none."""

    pools: Annotated[tuple[Name, ...], Field(min_length=1)]
    default_deadline_s: Seconds


@dataclass(config=STRICT, kw_only=True)
class LanesConfig:
    """All lanes."""

    realtime: LaneConfig = LaneConfig(pools=("realtime", "batch"), default_deadline_s=DEFAULT_REALTIME_DEADLINE_S)
    batch: LaneConfig = LaneConfig(pools=("batch",), default_deadline_s=DEFAULT_BATCH_DEADLINE_S)
    auto: LaneConfig = LaneConfig(pools=("realtime", "batch"), default_deadline_s=DEFAULT_AUTO_DEADLINE_S)

    def of(self, lane: Lane) -> LaneConfig:
        """Return one lane's."""
        match lane:
            case Lane.REALTIME:
                return self.realtime
            case Lane.BATCH:
                return self.batch
            case Lane.AUTO:
                return self.auto


@dataclass(config=STRICT, kw_only=True)
class ControllerConfig:
    """Where the engine table comes from; without an address the static list is used."""

    address: str | None = None


@dataclass(config=STRICT, kw_only=True)
class StaticEngineConfig:
    """An engine to use while there is no controller's table."""

    engine_id: Name
    address: str
    pool: Name
    max_context_tokens: Annotated[int, Field(ge=2)]


@dataclass(config=STRICT, kw_only=True)
class FreshnessConfig:
    """How long readings and suspicions hold."""

    fresh_s: Seconds = DEFAULT_FRESH_S
    suspect_s: Seconds = DEFAULT_SUSPECT_S


@dataclass(config=STRICT, kw_only=True)
class RetryConfig:
    """Engines called for one request at most; another one only before the first token."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = DEFAULT_MAX_ATTEMPTS


@dataclass(config=STRICT, kw_only=True)
class BatchConfig:
    """Jobs: where the ledger is (SQLAlchemy URL), where lines and results are (folder, or s3://, gs://, az:// URL)."""

    ledger: Annotated[str, Field(pattern=r"^(sqlite|postgresql)")]
    store: Annotated[str, Field(min_length=1)]
    max_in_flight: Annotated[int, Field(ge=1)] = DEFAULT_BATCH_IN_FLIGHT
    lease_s: Seconds = DEFAULT_BATCH_LEASE_S
    item_deadline_s: Seconds = DEFAULT_BATCH_ITEM_DEADLINE_S
    keep_days: Seconds = DEFAULT_BATCH_KEEP_DAYS


@dataclass(config=STRICT, kw_only=True)
class RouterConfig:
    """The whole file."""

    service: Literal["router"]
    router_id: Name
    address: str
    model: ModelConfig
    metrics_address: str | None = None
    max_request_bytes: Annotated[int, Field(ge=1024)] = DEFAULT_MAX_REQUEST_BYTES
    drain_grace_s: Annotated[float, Field(ge=0)] = DEFAULT_DRAIN_GRACE_S
    log: LogConfig = LogConfig()
    tracing: TracingConfig = TracingConfig()
    lane_rule: LaneRuleConfig = LaneRuleConfig()
    lanes: LanesConfig = LanesConfig()
    controller: ControllerConfig = ControllerConfig()
    static_engines: tuple[StaticEngineConfig, ...] = ()
    freshness: FreshnessConfig = FreshnessConfig()
    retry: RetryConfig = RetryConfig()
    # Without it this router takes no jobs.
    batch: BatchConfig | None = None


def load_config(file: Path) -> RouterConfig:
    """Read and check a file. Raises ConfigError with every fault."""
    config = load(file, RouterConfig)
    faults = (*_address_faults(config), *_engine_faults(config))
    if faults:
        raise ConfigError(str(file), faults)
    return config


def _addresses(config: RouterConfig) -> Iterator[tuple[str, str | None]]:
    yield "address", config.address
    yield "metrics_address", config.metrics_address
    yield "tracing.otlp_endpoint", config.tracing.otlp_endpoint
    yield "controller.address", config.controller.address
    for place, engine in enumerate(config.static_engines):
        yield f"static_engines.{place}.address", engine.address


def _address_faults(config: RouterConfig) -> Iterator[ConfigFault]:
    for path, address in _addresses(config):
        if address is None:
            continue
        try:
            split_address(address)
        except ValueError as error:
            yield ConfigFault(path, str(error))


def _engine_faults(config: RouterConfig) -> Iterator[ConfigFault]:
    if config.controller.address is None and not config.static_engines:
        yield ConfigFault("controller.address", "is required where static_engines is empty: the router would have no engine")
    seen: set[str] = set()
    for place, engine in enumerate(config.static_engines):
        if engine.engine_id in seen:
            yield ConfigFault(f"static_engines.{place}.engine_id", f"{engine.engine_id!r} is there twice")
        seen.add(engine.engine_id)
