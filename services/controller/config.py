"""Configuration of a controller: every key, its range, its default and why."""

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from libs.config.load import STRICT, load
from libs.rpc.address import split_address
from libs.telemetry.logs import LogFormat, LogLevel
from services.controller.core.settings import LawSettings, StepSettings

# A request of the controller's services is a few hundred bytes; a full engine table is far below this too.
DEFAULT_MAX_REQUEST_BYTES = 1_048_576
# Calls here are short; streams are ended by the controller itself.
DEFAULT_DRAIN_GRACE_S = 2.0
DEFAULT_JOURNAL_URL = "sqlite:///var/controller.db"
DEFAULT_KEEP_DAYS = 30
# Three missed renewals and an engine is gone.
DEFAULT_LEASE_S = 3.0
DEFAULT_RENEW_INTERVAL_S = 1.0
DEFAULT_LOAD_INTERVAL_MS = 200
DEFAULT_MIN_INTERVAL_MS = 100
# Engines send a heartbeat each second.
DEFAULT_STALE_S = 3.0
DEFAULT_TICK_S = 1.0
DEFAULT_REALTIME_P99_MS = 100.0
# Engines outlive a restart of the controller without falling back to their configured tuning.
DEFAULT_TUNING_LEASE_S = 30.0
# Two renewals may fail before a lease runs out.
RENEWALS_PER_LEASE = 3

_MIN_TELEMETRY_INTERVAL_MS, _MAX_TELEMETRY_INTERVAL_MS = 20, 10_000
_SQLITE_PREFIX = "sqlite:///"


def _address(value: str) -> str:
    split_address(value)
    return value


def _journal_url(value: str) -> str:
    if not value.startswith(_SQLITE_PREFIX) or value == _SQLITE_PREFIX:
        raise ValueError(f"{value!r} is not {_SQLITE_PREFIX}FILE; only SQLite is supported")
    return value


Address = Annotated[str, AfterValidator(_address)]
Name = Annotated[str, MinLen(1)]


@dataclass(config=STRICT, kw_only=True)
class LogConfig:
    """Logs on stderr."""

    level: LogLevel = "info"
    format: LogFormat = "text"


@dataclass(config=STRICT, kw_only=True)
class TracingConfig:
    """Spans of actuations; none are made without an endpoint (host:port, OTLP over gRPC)."""

    otlp_endpoint: Address | None = None


@dataclass(config=STRICT, kw_only=True)
class JournalConfig:
    """Where decisions and operators' orders are kept. A relative file is relative to the working directory."""

    url: Annotated[str, AfterValidator(_journal_url)] = DEFAULT_JOURNAL_URL
    keep_days: Annotated[int, Ge(1), Le(3650)] = DEFAULT_KEEP_DAYS


@dataclass(config=STRICT, kw_only=True)
class RegistryConfig:
    """Leases of registered engines."""

    lease_s: Annotated[float, Ge(0.2), Le(300)] = DEFAULT_LEASE_S
    renew_interval_s: Annotated[float, Ge(0.05), Le(100)] = DEFAULT_RENEW_INTERVAL_S

    def __post_init__(self) -> None:
        """Raise ValueError where a single late renewal would drop an engine."""
        if self.renew_interval_s * 2 > self.lease_s:
            raise ValueError(f"renew_interval_s: {self.renew_interval_s} must be at most half of lease_s ({self.lease_s})")


@dataclass(config=STRICT, kw_only=True)
class TableConfig:
    """The engine table that routers watch: time between tables when only load changes."""

    load_interval_ms: Annotated[int, Ge(20), Le(10_000)] = DEFAULT_LOAD_INTERVAL_MS


@dataclass(config=STRICT, kw_only=True)
class TelemetryConfig:
    """Reading of engines."""

    min_interval_ms: Annotated[int, Ge(_MIN_TELEMETRY_INTERVAL_MS), Le(_MAX_TELEMETRY_INTERVAL_MS)] = DEFAULT_MIN_INTERVAL_MS
    # Heartbeats come each second; a shorter limit would call every idle engine stale.
    stale_s: Annotated[float, Gt(1), Le(300)] = DEFAULT_STALE_S


@dataclass(config=STRICT, kw_only=True)
class LoopConfig:
    """The control loop: time between ticks."""

    tick_s: Annotated[float, Ge(0.05), Le(60)] = DEFAULT_TICK_S


@dataclass(config=STRICT, kw_only=True)
class SloConfig:
    """What is promised to realtime callers: P99 to the last token."""

    realtime_p99_ms: Annotated[float, Gt(0)] = DEFAULT_REALTIME_P99_MS


@dataclass(config=STRICT, kw_only=True)
class TuningConfig:
    """How long engines keep tuning without renewal (1 s to 1 day); renewed at a third of it."""

    lease_s: Annotated[float, Ge(1), Le(86_400)] = DEFAULT_TUNING_LEASE_S


@dataclass(config=STRICT, kw_only=True)
class ControllerConfig:
    """Everything a controller is told at its start."""

    service: Literal["controller"]
    controller_id: Name
    address: Address
    metrics_address: Address | None = None
    max_request_bytes: Annotated[int, Ge(1024), Le(64 * 1_048_576)] = DEFAULT_MAX_REQUEST_BYTES
    drain_grace_s: Annotated[float, Ge(0), Le(600)] = DEFAULT_DRAIN_GRACE_S
    log: LogConfig = field(default_factory=LogConfig)
    tracing: TracingConfig = field(default_factory=TracingConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    registry: RegistryConfig = field(default_factory=RegistryConfig)
    table: TableConfig = field(default_factory=TableConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    slo: SloConfig = field(default_factory=SloConfig)
    law: LawSettings = field(default_factory=LawSettings)
    tuning: TuningConfig = field(default_factory=TuningConfig)

    @property
    def step_settings(self) -> StepSettings:
        """What the pure core is told."""
        return StepSettings(
            law=self.law,
            slo_ms=self.slo.realtime_p99_ms,
            stale_s=self.telemetry.stale_s,
            renew_after_s=self.tuning.lease_s / RENEWALS_PER_LEASE,
        )


def load_config(path: Path) -> ControllerConfig:
    """Read and check a configuration file. Raises ConfigError with every fault."""
    return load(path, ControllerConfig)
