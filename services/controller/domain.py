"""What the controller works with, free of transport and storage."""

from dataclasses import dataclass, replace
from enum import IntEnum


class EngineState(IntEnum):
    """Life of an engine. Numbers are those of twinlane.common.v1.EngineState."""

    STARTING = 1
    WARMING = 2
    SERVING = 3
    DRAINING = 4
    UNHEALTHY = 5


class DecisionReason(IntEnum):
    """Why a decision was taken. Numbers are those of twinlane.controller.v1.DecisionReason."""

    LATENCY_OVER_SLO = 1
    ROOM_TO_GROW = 2
    STEADY = 3
    LIMIT_NOT_BINDING = 4
    TELEMETRY_STALE = 5
    TOO_FEW_SAMPLES = 6
    COOLDOWN = 7
    AT_BOUND = 8
    PAUSED = 9
    OVERRIDDEN = 10
    ENGINE_NOT_SERVING = 11
    GROWTH_HURT = 12
    FENCED = 13


class DecisionAction(IntEnum):
    """What a decision does. Numbers are those of twinlane.controller.v1.DecisionAction."""

    HOLD = 1
    GROW = 2
    SHRINK = 3
    OVERRIDE = 4


class ActuationResult(IntEnum):
    """What became of a decision. Numbers are those of twinlane.controller.v1.ActuationResult."""

    NONE = 1
    APPLIED = 2
    FAILED = 3


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Startup envelope of an engine, as far as tuning reaches."""

    max_active_sequences: int
    max_batched_tokens: int


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Tuning values; None leaves a value as it is."""

    max_active_sequences: int | None = None
    max_batched_tokens: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no value is given."""
        return self.max_active_sequences is None and self.max_batched_tokens is None

    def over(self, base: "Tuning") -> "Tuning":
        """Return `base` with the values given here in place of its own."""
        return Tuning(
            max_active_sequences=_first(self.max_active_sequences, base.max_active_sequences),
            max_batched_tokens=_first(self.max_batched_tokens, base.max_batched_tokens),
        )

    def where(self, mask: "Tuning") -> "Tuning":
        """Return only the values that `mask` gives too."""
        return Tuning(
            max_active_sequences=None if mask.max_active_sequences is None else self.max_active_sequences,
            max_batched_tokens=None if mask.max_batched_tokens is None else self.max_batched_tokens,
        )

    def without(self, mask: "Tuning") -> "Tuning":
        """Return only the values that `mask` does not give."""
        return Tuning(
            max_active_sequences=self.max_active_sequences if mask.max_active_sequences is None else None,
            max_batched_tokens=self.max_batched_tokens if mask.max_batched_tokens is None else None,
        )

    def clamped(self, limits: Limits) -> "Tuning":
        """Return the values brought into 1 or MIN_BATCHED_TOKENS .. the engine's limits."""
        return replace(
            self,
            max_active_sequences=_clamp(self.max_active_sequences, MIN_ACTIVE_SEQUENCES, limits.max_active_sequences),
            max_batched_tokens=_clamp(self.max_batched_tokens, MIN_BATCHED_TOKENS, limits.max_batched_tokens),
        )


NO_TUNING = Tuning()

# Lower bounds of twinlane.common.v1.Tuning.
MIN_ACTIVE_SEQUENCES = 1
MIN_BATCHED_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Override:
    """An operator's fixed values of one engine, until `expires_at_s` (wall time). `decision_id` names the decision that
    first carries it out."""

    engine_id: str
    tuning: Tuning
    expires_at_s: float
    reason: str
    decision_id: str


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Whether the laws are stopped, and why."""

    paused: bool = False
    reason: str = ""


def _first(value: int | None, other: int | None) -> int | None:
    return other if value is None else value


def _clamp(value: int | None, low: int, high: int) -> int | None:
    return None if value is None else max(low, min(value, high))
