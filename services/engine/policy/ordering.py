"""Who comes first: one number for each request, lower first, that needs no recalculation as time passes.

Realtime precedes batch. Realtime is ordered by deadline, earliest first; a request that has missed its own goes behind all
other realtime. Batch is ordered by priority with ageing: waiting `AGEING_S` is worth one step of priority, so the key
priority · AGEING_S + arrival stays the same whatever the time, and nobody waits for ever (R7).
"""

from typing import NamedTuple

AGEING_S = 10.0
# A realtime request without a deadline stands as if it had this long.
DEFAULT_REALTIME_DEADLINE_S = 30.0

# Wall times in milliseconds stay below this until the year 2286.
_CLASS_WIDTH = 10**13
_MILLIS = 1000


class Standing(NamedTuple):
    """What ordering needs of a request; wall times in seconds. `deadline_s` is None where the caller set none."""

    realtime: bool
    priority: int
    arrived_s: float
    deadline_s: float | None


def order_key(of: Standing) -> int:
    """Return a request's key while its deadline is ahead."""
    if not of.realtime:
        return int((of.priority * AGEING_S + of.arrived_s) * _MILLIS)
    deadline_s = of.arrived_s + DEFAULT_REALTIME_DEADLINE_S if of.deadline_s is None else of.deadline_s
    return int(deadline_s * _MILLIS) - 2 * _CLASS_WIDTH


def missed_key(key: int) -> int:
    """Return the key of a realtime request that has missed its deadline: behind other realtime, before batch."""
    return key if key >= -_CLASS_WIDTH else key + _CLASS_WIDTH


def is_late(of: Standing, now_s: float) -> bool:
    """Return whether a realtime request has missed its own deadline."""
    return of.realtime and of.deadline_s is not None and of.deadline_s < now_s
