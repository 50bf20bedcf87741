"""Health from forward progress: steps taken while work is queued. A busy engine is not a dead one."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ProgressReading:
    """One look at the engine."""

    now_s: float
    steps_total: int
    in_flight: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What was seen so far: the last step count, and since when it stands still with work queued."""

    steps_total: int
    standing_since_s: float
    stalled: bool = False


def judge(before: Progress, reading: ProgressReading, *, stall_s: float) -> Progress:
    """Take one reading. Stalled: work was in flight and no step was made for `stall_s`."""
    if reading.in_flight == 0 or reading.steps_total != before.steps_total:
        return Progress(steps_total=reading.steps_total, standing_since_s=reading.now_s)
    stalled = reading.now_s - before.standing_since_s >= stall_s
    return Progress(steps_total=before.steps_total, standing_since_s=before.standing_since_s, stalled=stalled)
