"""Configuration of an engine: every key, its range, its default and why."""

from collections.abc import Iterator
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, StringConstraints
from pydantic.dataclasses import dataclass

from libs.config.load import STRICT, ConfigError, ConfigFault, load
from libs.rpc.address import split_address
from libs.telemetry.logs import LogFormat, LogLevel
from services.engine.domain import Partition, SchedulingOptions, TuningValues
from services.engine.policy.config_checks import PartitionFacts, memory_faults, partition_faults, tuning_faults
from services.engine.policy.profiles import MIN_BATCHED_TOKENS, Envelope, profile_of

# A prompt of a million tokens takes about 3 MiB.
DEFAULT_MAX_REQUEST_BYTES = 8 * 1_048_576
# Kubernetes gives a process 30 s by default.
DEFAULT_DRAIN_GRACE_S = 30.0
# First-minute latency without warm-up was ten times the later one.
DEFAULT_WARM_UP_REQUESTS = 100
DEFAULT_WARM_UP_TOKENS = 50
DEFAULT_WARM_UP_CONCURRENCY = 16
# Longer than the longest step that any profile makes.
DEFAULT_STALL_S = 30.0
DEFAULT_LATENCY_WINDOW_S = 60.0
# A realtime answer of a few tokens makes as many steps: with 100 ms each it stays well under a second on a CPU.
DEFAULT_REALTIME_STEP_MS = 100.0
# Long enough that a step's fixed cost is small beside it, short enough that an unexpected arrival need not wait long.
DEFAULT_IDLE_STEP_MS = 400.0
# E5: beyond this a chunk only makes its step longer.
DEFAULT_PREFILL_CHUNK_TOKENS = 512
# R7: a tenth of what batch would do alone keeps every batch request moving.
DEFAULT_BATCH_MIN_SHARE_RATIO = 0.1
# Two arrivals of one instant find a slot without putting batch work back.
DEFAULT_REALTIME_RESERVED_SLOTS = 2
# E4.
DEFAULT_HOT_CACHE_RATIO = 0.3
DEFAULT_HOT_RETENTION_S = 900.0
# SmolLM2-135M on one core.
DEFAULT_SIM_BASE_STEP_MS = 20.0
DEFAULT_SIM_PREFILL_TOKEN_MS = 3.0
DEFAULT_SIM_DECODE_MS = 4.0
DEFAULT_SIM_KV_BLOCKS = 2048
DEFAULT_SIM_VOCABULARY_SIZE = 49_152

_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound


def _address(value: str) -> str:
    split_address(value)
    return value


Address = Annotated[str, AfterValidator(_address)]
EngineId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}$")]
Name = Annotated[str, MinLen(1)]
Count = Annotated[int, Ge(1)]
Milliseconds = Annotated[float, Ge(0)]


@dataclass(config=STRICT, kw_only=True)
class LogConfig:
    """Logs on stderr."""

    level: LogLevel = "info"
    format: LogFormat = "text"


@dataclass(config=STRICT, kw_only=True)
class TracingConfig:
    """Spans of calls; none are made without an endpoint (host:port, OTLP over gRPC)."""

    otlp_endpoint: Address | None = None


@dataclass(config=STRICT, kw_only=True)
class ModelConfig:
    """The model: the name that requests give, and the folder with its files (vLLM only)."""

    name: Name
    folder: Path | None = None


@dataclass(config=STRICT, kw_only=True)
class BackendConfig:
    """What runs the model."""

    kind: Literal["vllm", "sim"]


@dataclass(config=STRICT, kw_only=True)
class LimitsConfig:
    """Startup envelope; a key that is absent takes the profile's value."""

    max_context_tokens: Annotated[int, Ge(2)] | None = None
    max_active_sequences: Count | None = None
    max_batched_tokens: Annotated[int, Ge(MIN_BATCHED_TOKENS)] | None = None
    block_size_tokens: Count | None = None
    enforce_eager: bool | None = None
    kv_cache_gib: Annotated[float, Gt(0)] | None = None
    gpu_memory_ratio: Annotated[float, Gt(0), Le(1)] | None = None


@dataclass(config=STRICT, kw_only=True)
class SchedulerConfig:
    """vLLM's scheduler: Twinlane's own with its targets, or one of vLLM's for comparison."""

    kind: Literal["class-aware", "fcfs", "priority"] = "class-aware"
    realtime_step_ms: Annotated[float, Gt(0)] = DEFAULT_REALTIME_STEP_MS
    idle_step_ms: Annotated[float, Gt(0)] = DEFAULT_IDLE_STEP_MS
    prefill_chunk_tokens: Annotated[int, Ge(MIN_BATCHED_TOKENS)] = DEFAULT_PREFILL_CHUNK_TOKENS
    batch_min_share_ratio: Annotated[float, Ge(0), Le(0.9)] = DEFAULT_BATCH_MIN_SHARE_RATIO
    realtime_reserved_slots: Annotated[int, Ge(0)] = DEFAULT_REALTIME_RESERVED_SLOTS
    hot_cache_ratio: Annotated[float, Ge(0), Le(0.9)] = DEFAULT_HOT_CACHE_RATIO
    hot_retention_s: Annotated[float, Gt(0)] = DEFAULT_HOT_RETENTION_S

    @property
    def options(self) -> SchedulingOptions:
        """The same in seconds."""
        return SchedulingOptions(
            realtime_step_s=self.realtime_step_ms / 1000,
            idle_step_s=self.idle_step_ms / 1000,
            prefill_chunk_tokens=self.prefill_chunk_tokens,
            batch_min_share_ratio=self.batch_min_share_ratio,
            realtime_reserved_slots=self.realtime_reserved_slots,
            hot_cache_ratio=self.hot_cache_ratio,
            hot_retention_s=self.hot_retention_s,
        )


@dataclass(config=STRICT, kw_only=True)
class SimConfig:
    """The simulated engine: its step-time model, its cache, and by how much its time runs faster (0: no waiting)."""

    base_step_ms: Milliseconds = DEFAULT_SIM_BASE_STEP_MS
    prefill_token_ms: Milliseconds = DEFAULT_SIM_PREFILL_TOKEN_MS
    decode_ms: Milliseconds = DEFAULT_SIM_DECODE_MS
    context_ktoken_ms: Milliseconds = 0.0
    kv_blocks: Count = DEFAULT_SIM_KV_BLOCKS
    speed: Annotated[float, Ge(0)] = 1.0
    vocabulary_size: Annotated[int, Ge(2)] = DEFAULT_SIM_VOCABULARY_SIZE
    seed: int = 0


@dataclass(config=STRICT, kw_only=True)
class PartitionConfig:
    """Share of the machine: CPU core numbers, GPU UUIDs or MIG instance UUIDs."""

    kind: Literal["cpu", "gpu", "mig"] = "cpu"
    devices: tuple[Name, ...] = ("0",)


@dataclass(config=STRICT, kw_only=True)
class WarmUpConfig:
    """Requests run before the engine serves, and tokens that each generates; `requests = 0` leaves warm-up out."""

    requests: Annotated[int, Ge(0)] = DEFAULT_WARM_UP_REQUESTS
    tokens: Count = DEFAULT_WARM_UP_TOKENS
    max_concurrency: Count = DEFAULT_WARM_UP_CONCURRENCY


@dataclass(config=STRICT, kw_only=True)
class TuningConfig:
    """Tuning without a controller; a key that is absent takes the profile's value, clipped to the limits."""

    max_active_sequences: Count | None = None
    max_batched_tokens: Annotated[int, Ge(MIN_BATCHED_TOKENS)] | None = None


@dataclass(config=STRICT, kw_only=True)
class ControllerConfig:
    """Where the engine registers; without an address it does not."""

    address: Address | None = None


@dataclass(config=STRICT, kw_only=True)
class HealthConfig:
    """The engine is unhealthy when work is queued and no step was made for this long."""

    stall_s: Annotated[float, Gt(0)] = DEFAULT_STALL_S


@dataclass(config=STRICT, kw_only=True)
class TelemetryConfig:
    """Latency quantiles are over the last `latency_window_s` seconds."""

    latency_window_s: Annotated[float, Gt(0)] = DEFAULT_LATENCY_WINDOW_S


@dataclass(config=STRICT, kw_only=True)
class EngineConfig:
    """Everything an engine is told at its start."""

    service: Literal["engine"]
    engine_id: EngineId
    pool: Name
    address: Address
    advertise_address: Address | None = None
    metrics_address: Address | None = None
    max_request_bytes: Annotated[int, Ge(1024), Le(64 * 1_048_576)] = DEFAULT_MAX_REQUEST_BYTES
    drain_grace_s: Annotated[float, Ge(0), Le(86_400)] = DEFAULT_DRAIN_GRACE_S
    profile: Name
    model: ModelConfig
    backend: BackendConfig
    log: LogConfig = field(default_factory=LogConfig)
    tracing: TracingConfig = field(default_factory=TracingConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    sim: SimConfig = field(default_factory=SimConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    partition: PartitionConfig = field(default_factory=PartitionConfig)
    warm_up: WarmUpConfig = field(default_factory=WarmUpConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    health: HealthConfig = field(default_factory=HealthConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)

    @property
    def owned(self) -> Partition:
        """What the engine owns of the machine."""
        return Partition(kind=self.partition.kind, devices=self.partition.devices)

    @property
    def envelope(self) -> Envelope:
        """Limits of the profile with the configured ones over them. Raises ValueError where an own profile leaves some out."""
        given = {key.name: value for key in fields(LimitsConfig) if (value := getattr(self.limits, key.name)) is not None}
        profile = profile_of(self.profile, on_cpu=self.partition.kind == "cpu")
        if profile is not None:
            return replace(profile.envelope, **given)
        if missing := _missing_limits(self):
            raise ValueError(f"limits: {', '.join(missing)} missing for profile {self.profile!r}")
        return Envelope(**given)

    @property
    def initial_tuning(self) -> TuningValues:
        """Tuning that holds without a controller."""
        profile = profile_of(self.profile, on_cpu=self.partition.kind == "cpu")
        limits = self.envelope
        default = limits if profile is None else profile.tuning
        return TuningValues(
            max_active_sequences=self.tuning.max_active_sequences
            or min(default.max_active_sequences, limits.max_active_sequences),
            max_batched_tokens=self.tuning.max_batched_tokens or min(default.max_batched_tokens, limits.max_batched_tokens),
        )


def load_config(path: Path) -> EngineConfig:
    """Read and check a configuration file. Raises ConfigError with every fault."""
    config = load(path, EngineConfig)
    faults = tuple(find_faults(config))
    if faults:
        raise ConfigError(str(path), faults)
    return config


def find_faults(config: EngineConfig) -> Iterator[ConfigFault]:
    """Yield what is wrong between keys that are each right."""
    yield from (ConfigFault(path, message) for path, message in partition_faults(config.owned))
    if config.backend.kind == "vllm" and config.model.folder is None:
        yield ConfigFault("model.folder", 'required for backend.kind "vllm"')
    if config.controller.address is not None and config.advertise_address is None and _is_wildcard(config.address):
        yield ConfigFault("advertise_address", f"required: others cannot reach {config.address!r}")
    missing = _missing_limits(config)
    yield from (ConfigFault(f"limits.{name}", f"required for profile {config.profile!r}") for name in missing)
    if not missing:
        yield from _envelope_faults(config)


def _envelope_faults(config: EngineConfig) -> Iterator[ConfigFault]:
    envelope = config.envelope
    facts = PartitionFacts(on_cpu=config.partition.kind == "cpu", is_vllm=config.backend.kind == "vllm")
    for path, message in (*memory_faults(envelope, facts), *tuning_faults(config.initial_tuning, envelope)):
        yield ConfigFault(path, message)
    if config.backend.kind == "sim" and config.sim.kv_blocks * envelope.block_size_tokens < envelope.max_context_tokens:
        yield ConfigFault("sim.kv_blocks", f"hold less than one context of {envelope.max_context_tokens} tokens")


def _missing_limits(config: EngineConfig) -> tuple[str, ...]:
    """Limits that an operator's own profile must give and does not."""
    if profile_of(config.profile, on_cpu=config.partition.kind == "cpu") is not None:
        return ()
    memory = "kv_cache_gib" if config.partition.kind == "cpu" else "gpu_memory_ratio"
    needed = ("max_context_tokens", "max_active_sequences", "max_batched_tokens", "block_size_tokens", "enforce_eager", memory)
    return tuple(name for name in needed if getattr(config.limits, name) is None)


def _is_wildcard(address: str) -> bool:
    return split_address(address)[0] in _WILDCARDS
