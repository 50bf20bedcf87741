"""How many waiting requests of each class may start in the next step: slots kept for realtime, and one for batch."""

from dataclasses import dataclass

# Under sustained realtime load batch keeps this many slots, else its minimum share would have nowhere to run.
BATCH_RESERVED_SLOTS = 1


@dataclass(frozen=True, kw_only=True)
class SlotView:
    """Requests by class, and the limit on all that run."""

    active_limit: int
    realtime_reserved: int
    realtime_running: int
    batch_running: int
    batch_waiting: int


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Most requests of each class that may start now; together they may exceed the free slots, which bound both."""

    realtime: int
    batch: int


def admit(view: SlotView) -> Admission:
    """Return how many of each class may start. With a limit of one, realtime has it first."""
    free = max(view.active_limit - view.realtime_running - view.batch_running, 0)
    batch_needs = view.batch_waiting > 0 and view.batch_running < BATCH_RESERVED_SLOTS and view.active_limit > 1
    kept_for_batch = BATCH_RESERVED_SLOTS - view.batch_running if batch_needs else 0
    batch_limit = view.active_limit - min(view.realtime_reserved, view.active_limit - 1)
    return Admission(realtime=max(free - kept_for_batch, 0), batch=max(min(batch_limit - view.batch_running, free), 0))
