"""Inputs of one tick."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.controller.domain import NO_TUNING, EngineState, Limits, Override, Tuning


@dataclass(frozen=True, kw_only=True)
class LatencyReading:
    """P99 to the last token of one lane over the engine's window, with the samples behind it (at least one)."""

    count: int
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class EngineReading:
    """What is known of one engine. None: not measured, or nothing heard yet."""

    engine_id: str
    epoch: int
    pool: str
    state: EngineState
    limits: Limits
    # Since the last snapshot of this epoch was received.
    age_s: float | None = None
    # In force by that snapshot.
    tuning: Tuning = NO_TUNING
    # Requests inside the engine, in all lanes: generating, and waiting for their first token.
    running: int = 0
    waiting: int = 0
    realtime: LatencyReading | None = None
    auto: LatencyReading | None = None
    # Share of cache blocks in use.
    kv_usage_ratio: float | None = None
    # Share of cache memory lost to fragmentation.
    fragmentation_ratio: float | None = None

    @property
    def judged(self) -> LatencyReading | None:
        """The latency that is held against the SLO.

        It is that of the realtime lane, else that of the AUTO lane, whose callers wait too. The batch lane is never judged:
        nobody waits there, so an engine with batch work alone has no P99 and grows until its memory or its limit ends it.
        """
        return self.realtime or self.auto


@dataclass(frozen=True, kw_only=True)
class Tick:
    """One moment of the mesh. `now_s` is monotonic, `wall_s` counts from 1970; engines are ordered by name."""

    now_s: float
    wall_s: float
    engines: tuple[EngineReading, ...]
    paused: bool = False
    overrides: Mapping[str, Override] = field(default_factory=dict)
