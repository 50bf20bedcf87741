"""Tuning inside the startup envelope."""

from dataclasses import dataclass, replace

from services.engine.domain import TuningValues
from services.engine.policy.profiles import MIN_BATCHED_TOKENS

MAX_ACTIVE_SEQUENCES = "max_active_sequences"
MAX_BATCHED_TOKENS = "max_batched_tokens"


@dataclass(frozen=True, kw_only=True)
class TuningBounds:
    """Largest values that the engine was started for."""

    max_active_sequences: int
    max_batched_tokens: int


@dataclass(frozen=True, kw_only=True)
class TuningUpdate:
    """Requested change; None leaves a value as it is."""

    max_active_sequences: int | None = None
    max_batched_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ClampedTuning:
    """Values inside the bounds, and the names of the fields that had to be moved."""

    values: TuningValues
    clamped_fields: tuple[str, ...]


def merge(current: TuningValues, update: TuningUpdate) -> TuningValues:
    """Return `current` with the fields that `update` sets."""
    if update.max_active_sequences is not None:
        current = replace(current, max_active_sequences=update.max_active_sequences)
    if update.max_batched_tokens is not None:
        current = replace(current, max_batched_tokens=update.max_batched_tokens)
    return current


def clamp(values: TuningValues, bounds: TuningBounds) -> ClampedTuning:
    """Move every value into its range: sequences 1 up to the bound, batched tokens 16 up to the bound."""
    inside = TuningValues(
        max_active_sequences=min(max(values.max_active_sequences, 1), bounds.max_active_sequences),
        max_batched_tokens=min(max(values.max_batched_tokens, MIN_BATCHED_TOKENS), bounds.max_batched_tokens),
    )
    return ClampedTuning(values=inside, clamped_fields=moved_fields(asked=values, holds=inside))


def moved_fields(*, asked: TuningValues, holds: TuningValues) -> tuple[str, ...]:
    """Name the fields in which `holds` differs from `asked`."""
    fields = []
    if asked.max_active_sequences != holds.max_active_sequences:
        fields.append(MAX_ACTIVE_SEQUENCES)
    if asked.max_batched_tokens != holds.max_batched_tokens:
        fields.append(MAX_BATCHED_TOKENS)
    return tuple(fields)
