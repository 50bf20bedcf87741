"""Everything of the class-aware scheduler that changes at run time, and its range."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from services.engine.policy.profiles import MIN_BATCHED_TOKENS
from services.engine.policy.step_budget import StepTargets
from services.engine.policy.tiering import TierLimits, hot_quota

# Requirement E5: static batching runs this many sequences.
STATIC_ACTIVE_SEQUENCES = 8
_DAY_S = 86_400.0

NumberT = TypeVar("NumberT", int, float)


@dataclass(frozen=True, kw_only=True)
class SchedulerTuning:
    """Values in force. Steps last about `realtime_step_s` with realtime work in them, `idle_step_s` without."""

    max_active_sequences: int
    max_batched_tokens: int
    # A tenth of a second with realtime work: four tokens then take half a second on two cores. GPUs are tuned far below.
    realtime_step_s: float = 0.1
    # Without realtime work the step is longer, for fewer fixed costs.
    idle_step_s: float = 0.4
    prefill_chunk_tokens: int = 512
    # Batch never gets less than this share of the prompt tokens that it would process alone.
    batch_min_share_ratio: float = 0.1
    realtime_reserved_slots: int = 2
    hot_cache_ratio: float = 0.3
    hot_cache_min_blocks: int = 0
    hot_retention_s: float = 900.0
    cold_retention_s: float = 120.0
    cold_reclaim_ratio: float = 0.8
    static_batching: bool = False


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What the engine was started with; nothing is tuned beyond it."""

    max_active_sequences: int
    max_batched_tokens: int
    total_blocks: int


@dataclass(frozen=True, kw_only=True)
class AppliedTuning:
    """Values that hold, and the names of the fields that had to be moved into their range."""

    values: SchedulerTuning
    clamped_fields: tuple[str, ...]


def apply_update(current: SchedulerTuning, update: Mapping[str, Any], envelope: Envelope) -> AppliedTuning:
    """Return `current` with the fields that `update` names, each moved into its range.

    Raises KeyError for a field that does not exist, ValueError for a value of another kind; then nothing changes.
    """
    known = {field.name for field in fields(SchedulerTuning)}
    if unknown := sorted(set(update) - known):
        raise KeyError(f"unknown tuning: {', '.join(unknown)}")
    asked = replace(current, **{name: _typed(current, name, value) for name, value in update.items()})
    inside = clamp(asked, envelope)
    moved = tuple(name for name, value in asdict(inside).items() if value != getattr(asked, name))
    return AppliedTuning(values=inside, clamped_fields=moved)


def clamp(asked: SchedulerTuning, envelope: Envelope) -> SchedulerTuning:
    """Move every value into its range."""
    batched = _within(asked.max_batched_tokens, MIN_BATCHED_TOKENS, envelope.max_batched_tokens)
    active = _within(asked.max_active_sequences, 1, envelope.max_active_sequences)
    realtime_s = _within(asked.realtime_step_s, 0.001, 10.0)
    return SchedulerTuning(
        max_active_sequences=active,
        max_batched_tokens=batched,
        realtime_step_s=realtime_s,
        idle_step_s=_within(asked.idle_step_s, realtime_s, 60.0),
        prefill_chunk_tokens=_within(asked.prefill_chunk_tokens, MIN_BATCHED_TOKENS, envelope.max_batched_tokens),
        batch_min_share_ratio=_within(asked.batch_min_share_ratio, 0.0, 0.9),
        realtime_reserved_slots=_within(asked.realtime_reserved_slots, 0, envelope.max_active_sequences - 1),
        hot_cache_ratio=_within(asked.hot_cache_ratio, 0.0, 0.9),
        hot_cache_min_blocks=_within(asked.hot_cache_min_blocks, 0, envelope.total_blocks // 2),
        hot_retention_s=_within(asked.hot_retention_s, 0.0, _DAY_S),
        cold_retention_s=_within(asked.cold_retention_s, 0.0, _DAY_S),
        cold_reclaim_ratio=_within(asked.cold_reclaim_ratio, 0.0, 1.0),
        static_batching=asked.static_batching,
    )


def active_limit(tuning: SchedulerTuning) -> int:
    """Return how many sequences may run at once."""
    return min(tuning.max_active_sequences, STATIC_ACTIVE_SEQUENCES) if tuning.static_batching else tuning.max_active_sequences


def step_targets(tuning: SchedulerTuning) -> StepTargets:
    """Return what the step budget needs of the tuning."""
    return StepTargets(
        realtime_s=tuning.realtime_step_s,
        idle_s=tuning.idle_step_s,
        max_batched_tokens=tuning.max_batched_tokens,
        chunk_tokens=tuning.prefill_chunk_tokens,
        batch_min_share_ratio=tuning.batch_min_share_ratio,
        adaptive=not tuning.static_batching,
    )


def tier_limits(tuning: SchedulerTuning, envelope: Envelope) -> TierLimits:
    """Return what the tiers need of the tuning."""
    return TierLimits(
        hot_blocks=hot_quota(
            total_blocks=envelope.total_blocks, hot_ratio=tuning.hot_cache_ratio, min_hot_blocks=tuning.hot_cache_min_blocks
        ),
        hot_retention_s=tuning.hot_retention_s,
        cold_retention_s=tuning.cold_retention_s,
        reclaim_ratio=tuning.cold_reclaim_ratio,
    )


def _typed(current: SchedulerTuning, name: str, value: Any) -> Any:
    """Return the value in the kind of its field: whole numbers serve as fractions, nothing else is converted."""
    kind = type(getattr(current, name))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind or not math.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not a value of kind {kind.__name__}")
    return value


def _within(value: NumberT, low: NumberT, high: NumberT) -> NumberT:
    return max(low, min(value, high))
