"""How many batch tokens the next step may take beside realtime work (E3, R7)."""

from dataclasses import dataclass
from enum import Enum

from services.engine.policy.step_time import StepTimeModel


class StepMode(Enum):
    """Which of the two step-time targets holds, and why."""

    REALTIME_PRESENT = "realtime_present"
    REALTIME_EXPECTED = "realtime_expected"
    BATCH_ONLY = "batch_only"


@dataclass(frozen=True, kw_only=True)
class StepTargets:
    """Step times in seconds: while realtime work is there or expected, and else; most batch prompt tokens of one request in
    one step; the share of a full batch step that batch keeps under sustained realtime load (0 to 1); the chance of an
    arrival from which on it is expected."""

    realtime_s: float
    batch_s: float
    chunk_tokens: int
    min_batch_share: float
    expect_chance: float


@dataclass(frozen=True, kw_only=True)
class StepLoad:
    """What the next step has beside batch prompt tokens."""

    realtime_present: bool
    arrival_chance: float
    realtime_prefill_tokens: int
    decodes: int
    context_ktokens: float


@dataclass(frozen=True, kw_only=True)
class StepBudget:
    """Batch prompt tokens of the next step in all, and why."""

    batch_tokens: int
    mode: StepMode


# Progress is made in every step: a chunk smaller than this costs more in overhead than it processes.
MIN_CHUNK_TOKENS = 16


def mode_of(load: StepLoad, targets: StepTargets) -> StepMode:
    """Return which target holds."""
    if load.realtime_present:
        return StepMode.REALTIME_PRESENT
    if load.arrival_chance >= targets.expect_chance:
        return StepMode.REALTIME_EXPECTED
    return StepMode.BATCH_ONLY


def next_budget(model: StepTimeModel, targets: StepTargets, load: StepLoad) -> StepBudget:
    """Return the batch tokens that keep the next step within its target, at least the minimum share and one small chunk."""
    mode = mode_of(load, targets)
    target_s = targets.batch_s if mode is StepMode.BATCH_ONLY else targets.realtime_s
    tokens = model.prefill_tokens_within(target_s, decodes=load.decodes, context_ktokens=load.context_ktokens)
    if mode is not StepMode.BATCH_ONLY:
        full = model.prefill_tokens_within(targets.batch_s, decodes=0, context_ktokens=0.0)
        tokens = max(tokens - load.realtime_prefill_tokens, int(full * targets.min_batch_share))
    return StepBudget(batch_tokens=max(tokens, MIN_CHUNK_TOKENS), mode=mode)


def chunk(wanted: int, left: int, targets: StepTargets) -> int:
    """Return the tokens of one batch request's chunk, of `wanted` prompt tokens left and `left` tokens of budget."""
    return max(0, min(wanted, left, targets.chunk_tokens))
