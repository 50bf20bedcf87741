"""What the controller remembers of each engine from tick to tick."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.controller.domain import NO_TUNING, Tuning


@dataclass(frozen=True, kw_only=True)
class Held:
    """Tuning that the engine confirmed at `at_s` (monotonic)."""

    tuning: Tuning
    at_s: float


@dataclass(frozen=True, kw_only=True)
class EngineMemory:
    """Memory of one engine. Times are monotonic and hold within one run of the controller."""

    epoch: int
    growth_factor: float
    # Last tick that had the engine in its table (monotonic).
    seen_at_s: float
    # What the controller wants the engine to hold; values never set by it are None.
    target: Tuning = NO_TUNING
    # What the engine confirmed within its epoch.
    held: Held | None = None
    # Last change of the target by the law; None before the first.
    changed_at_s: float | None = None
    # Judged P99 when the law last grew the limit, until its effect has been seen.
    growth_p99_ms: float | None = None
    # Values that an override displaced, for those that no law takes up again when it ends.
    displaced: Tuning = NO_TUNING
    # Override that was last carried out.
    override_id: str = ""
    # The engine follows a newer controller.
    fenced: bool = False


@dataclass(frozen=True, kw_only=True)
class ControllerState:
    """Memory of every engine of the table, by name."""

    engines: Mapping[str, EngineMemory] = field(default_factory=dict)
