"""What the class-aware scheduler may be told at run time, and how it is told: a flat mapping that survives the way into the
core process."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from services.engine.policy.step_budget import StepTargets
from services.engine.policy.tiering import DEFAULT_HOT_RATIO, DEFAULT_HOT_RETENTION_S, DEFAULT_REUSE_WINDOW_S, TierRules

# E5: static batching, the setting to fall back on when adaptive parts are in doubt.
STATIC_SEQUENCES = 8


@dataclass(frozen=True, kw_only=True)
class CoreTuning:
    """Every knob of one engine core. Seconds, tokens, ratios 0 to 1, counts; `static_batching` fixes the batch at
    STATIC_SEQUENCES and switches the adaptive parts off."""

    max_active_sequences: int
    max_batched_tokens: int
    realtime_step_s: float = 0.1
    batch_step_s: float = 0.4
    chunk_tokens: int = 512
    min_batch_share: float = 0.05
    expect_chance: float = 0.3
    reserved_realtime_slots: int = 2
    hot_ratio: float = DEFAULT_HOT_RATIO
    hot_min_blocks: int = 0
    hot_retention_s: float = DEFAULT_HOT_RETENTION_S
    reuse_window_s: float = DEFAULT_REUSE_WINDOW_S
    static_batching: bool = False

    @property
    def targets(self) -> StepTargets:
        """The part that fills steps."""
        return StepTargets(
            realtime_s=self.realtime_step_s,
            batch_s=self.batch_step_s,
            chunk_tokens=self.chunk_tokens,
            min_batch_share=self.min_batch_share,
            expect_chance=self.expect_chance,
        )

    @property
    def tier_rules(self) -> TierRules:
        """The part that keeps blocks."""
        return TierRules(
            hot_ratio=self.hot_ratio,
            hot_min_blocks=self.hot_min_blocks,
            hot_retention_s=self.hot_retention_s,
            reuse_window_s=self.reuse_window_s,
        )

    @property
    def active_limit(self) -> int:
        """Sequences that may run at once."""
        return min(STATIC_SEQUENCES, self.max_active_sequences) if self.static_batching else self.max_active_sequences


_NAMES = frozenset(field.name for field in fields(CoreTuning))


def merge(current: CoreTuning, update: Mapping[str, Any], *, max_sequences: int, max_tokens: int) -> CoreTuning:
    """Return `current` with the update's values, clamped to the startup envelope. Raises ValueError for an unknown name."""
    unknown = sorted(set(update) - _NAMES)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a tuning value")
    merged = replace(current, **update)
    return replace(
        merged,
        max_active_sequences=min(max(merged.max_active_sequences, 1), max_sequences),
        max_batched_tokens=min(max(merged.max_batched_tokens, 1), max_tokens),
        hot_ratio=min(max(merged.hot_ratio, 0.0), 1.0),
        min_batch_share=min(max(merged.min_batch_share, 0.0), 1.0),
    )


def to_payload(tuning: CoreTuning) -> dict[str, Any]:
    """Return the tuning as a flat mapping."""
    return asdict(tuning)
