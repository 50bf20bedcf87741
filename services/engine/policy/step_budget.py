"""How many prompt tokens of each class go into the next step, so that it takes about as long as it may."""

from dataclasses import dataclass
from enum import Enum

from services.engine.policy.arrivals import Arrivals, longest_quiet_s
from services.engine.policy.step_time import StepTimeModel, StepWork, chunk_pairs

# Batch always gets this much: below it a step is all overhead, and with none it might never end.
CHUNK_FLOOR_TOKENS = 16
# A step may be so long that an arrival falls into it with this probability. One step in three then delays somebody.
_ARRIVAL_RISK = 0.33


class BudgetReason(Enum):
    """What bounded the batch tokens of a step."""

    REALTIME_PRESENT = "realtime_present"
    REALTIME_EXPECTED = "realtime_expected"
    NO_REALTIME = "no_realtime"
    MINIMUM_SHARE = "minimum_share"
    FLOOR = "floor"
    STATIC = "static"


@dataclass(frozen=True, kw_only=True)
class StepTargets:
    """How long a step may take in seconds: with realtime work in it, and without. `adaptive` off: as many tokens as fit."""

    realtime_s: float
    idle_s: float
    max_batched_tokens: int
    chunk_tokens: int
    batch_min_share_ratio: float
    adaptive: bool = True


@dataclass(frozen=True, kw_only=True)
class StepView:
    """State before a step. `decoding` holds the decodes of every class that will run."""

    now_s: float
    decoding: StepWork
    # Realtime prompt tokens still to compute: of running requests, and of waiting ones that a slot is free for.
    realtime_prefill_tokens: int
    # Whether a realtime request runs or waits.
    realtime_present: bool
    # Whether a batch request runs or waits.
    batch_present: bool
    # Computed tokens of the batch prompt that goes on next.
    batch_computed_tokens: int
    arrivals: Arrivals


@dataclass(frozen=True, kw_only=True)
class StepBudget:
    """Prompt tokens that each class may use in the next step, and why batch may not use more."""

    realtime_tokens: int
    batch_tokens: int
    target_s: float
    reason: BudgetReason


@dataclass(frozen=True, kw_only=True)
class BatchDebt:
    """Batch tokens that the minimum share has promised and steps have not given yet, as of `at_s`."""

    tokens: float = 0.0
    at_s: float | None = None


def plan_budget(view: StepView, targets: StepTargets, model: StepTimeModel, debt: BatchDebt) -> StepBudget:
    """Return the budgets of the next step. Their sum and the decodes stay within `max_batched_tokens`."""
    room_tokens = max(targets.max_batched_tokens - view.decoding.decodes, 0)
    if not targets.adaptive:
        realtime_tokens = min(view.realtime_prefill_tokens, room_tokens)
        return StepBudget(
            realtime_tokens=room_tokens,
            batch_tokens=room_tokens - realtime_tokens,
            target_s=targets.idle_s,
            reason=BudgetReason.STATIC,
        )
    realtime_tokens = _realtime_tokens(view, targets, model, room_tokens)
    planned = min(view.realtime_prefill_tokens, realtime_tokens)
    target_s, reason = _target(view, targets)
    fitting = _fitting(view, model, target_s=target_s, realtime_tokens=planned)
    owed = int(debt.tokens)
    if owed > fitting:
        owed = min(owed, _fitting(view, model, target_s=targets.idle_s, realtime_tokens=planned))
    if owed > fitting and owed >= CHUNK_FLOOR_TOKENS:
        fitting, reason = owed, BudgetReason.MINIMUM_SHARE
    elif fitting < CHUNK_FLOOR_TOKENS:
        fitting, reason = CHUNK_FLOOR_TOKENS, BudgetReason.FLOOR
    return StepBudget(
        realtime_tokens=realtime_tokens,
        batch_tokens=min(fitting, max(room_tokens - planned, 0)),
        target_s=target_s,
        reason=reason,
    )


def chunk(*, wanted_tokens: int, left_tokens: int, chunk_tokens: int) -> int:
    """Return the size of one request's next chunk: at most what it wants, its class has left, and `chunk_tokens`."""
    return max(min(wanted_tokens, left_tokens, chunk_tokens), 0)


def accrue(debt: BatchDebt, view: StepView, targets: StepTargets, model: StepTimeModel) -> BatchDebt:
    """Return the debt as of the view: the minimum share of what batch alone would get in the time since the last step.

    Nothing is owed while batch has no work or realtime none. At most one step without realtime work is ever owed.
    """
    if not (targets.adaptive and view.batch_present and view.realtime_present) or debt.at_s is None:
        return BatchDebt(tokens=debt.tokens if view.batch_present else 0.0, at_s=view.now_s)
    full = _fitting(view, model, target_s=targets.idle_s, realtime_tokens=0)
    elapsed_s = max(view.now_s - debt.at_s, 0.0)
    owed = debt.tokens + targets.batch_min_share_ratio * full / targets.idle_s * elapsed_s
    return BatchDebt(tokens=min(owed, float(full)), at_s=view.now_s)


def paid(debt: BatchDebt, *, batch_tokens: int) -> BatchDebt:
    """Return the debt after a step that gave batch this many prompt tokens."""
    return BatchDebt(tokens=max(debt.tokens - batch_tokens, 0.0), at_s=debt.at_s)


def _target(view: StepView, targets: StepTargets) -> tuple[float, BudgetReason]:
    """Return how long the step may take: the shorter the sooner a realtime request is to be expected."""
    if view.realtime_present:
        return targets.realtime_s, BudgetReason.REALTIME_PRESENT
    quiet_s = longest_quiet_s(view.arrivals, now_s=view.now_s, risk=_ARRIVAL_RISK)
    if quiet_s >= targets.idle_s:
        return targets.idle_s, BudgetReason.NO_REALTIME
    return max(quiet_s, targets.realtime_s), BudgetReason.REALTIME_EXPECTED


def _realtime_tokens(view: StepView, targets: StepTargets, model: StepTimeModel, room_tokens: int) -> int:
    """A burst of realtime prompts is cut so that the first of them do not wait for the last."""
    fitting = model.most_prefill_tokens(target_s=targets.idle_s, beside=view.decoding, computed_tokens=0)
    return min(max(fitting, CHUNK_FLOOR_TOKENS), room_tokens)


def _fitting(view: StepView, model: StepTimeModel, *, target_s: float, realtime_tokens: int) -> int:
    beside = StepWork(
        prefill_tokens=realtime_tokens,
        decodes=view.decoding.decodes,
        context_tokens=view.decoding.context_tokens,
        attended_pairs=chunk_pairs(tokens=realtime_tokens, computed_tokens=0),
    )
    return model.most_prefill_tokens(target_s=target_s, beside=beside, computed_tokens=view.batch_computed_tokens)
