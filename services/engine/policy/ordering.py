"""Who is served first: realtime by deadline, those too late already behind the others; then background work by rank and age."""

import math

from libs.core.lanes import Lane

# One level of priority is worth this much waiting: ten minutes of waiting outweigh the whole usual range of ±50 levels.
AGEING_S_PER_LEVEL = 6.0
# AUTO is served before BATCH as if it had come this many levels earlier.
_AUTO_HEAD_START_LEVELS = 10
# Realtime requests that state no deadline are ordered as if they had this one: the hard limit of the realtime lane.
ASSUMED_PATIENCE_S = 1.0


def is_realtime(lane: Lane) -> bool:
    """Return whether somebody waits for the answer; AUTO and BATCH are background work."""
    return lane is Lane.REALTIME


def realtime_key(*, deadline_s: float, arrival_s: float, priority: int) -> tuple[int, float, float]:
    """Return the sort key of a realtime request in time: stated priority, then earliest deadline, then arrival."""
    return (priority, arrival_s + ASSUMED_PATIENCE_S if math.isinf(deadline_s) else deadline_s, arrival_s)


def background_key(*, lane: Lane, arrival_s: float, priority: int) -> float:
    """Return the sort key of background work: arrival, moved by priority. As everything ages alike, the order of two requests
    never changes while they wait, and any request is in time older than all that may still come."""
    head_start = _AUTO_HEAD_START_LEVELS if lane is Lane.AUTO else 0
    return arrival_s + (priority - head_start) * AGEING_S_PER_LEVEL


def is_late(*, deadline_s: float, now_s: float) -> bool:
    """Return whether a deadline has passed: its answer helps nobody, and must not delay those that can still be in time."""
    return now_s >= deadline_s
