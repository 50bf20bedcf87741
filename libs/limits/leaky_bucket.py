"""Leaky bucket, in its form as a queue: an even outflow, and a bound on what waits."""

import math

from libs.limits.verdict import Grant, Refusal, Verdict

# A wait is told in floating-point seconds; who comes back after it must not be refused for the last rounding.
_ROUNDING_S = 1e-6


class LeakyBucket:
    """Meters a queue that is emptied at `rate_per_s` of cost and holds at most `capacity` of it.

    A grant says when its work may start, so that starts are spaced by cost / `rate_per_s`: there are no bursts. Time may
    stand still but is never taken to go back.
    """

    def __init__(self, *, rate_per_s: float, capacity: float, now_s: float) -> None:
        if not (0 < rate_per_s < math.inf):
            raise ValueError(f"rate_per_s: {rate_per_s} must be above 0 and finite")
        if not (0 < capacity < math.inf):
            raise ValueError(f"capacity: {capacity} must be above 0 and finite")
        self._rate_per_s = rate_per_s
        self._capacity = capacity
        self._level = 0.0
        self._at_s = now_s

    def level(self, *, now_s: float) -> float:
        """Return the cost that waits at `now_s`: 0 up to the capacity."""
        self._drain(now_s)
        return self._level

    def try_add(self, cost: float, *, now_s: float) -> Verdict:
        """Queue `cost` (at least 0, fractions allowed) in full or not at all."""
        if not cost >= 0:
            raise ValueError(f"cost: {cost} must be at least 0")
        self._drain(now_s)
        over = self._level + cost - self._capacity
        if over > self._rate_per_s * _ROUNDING_S:
            never = cost > self._capacity
            return Refusal(retry_after_s=math.inf if never else over / self._rate_per_s)
        start_in_s = self._level / self._rate_per_s
        self._level += cost
        return Grant(start_in_s=start_in_s)

    def _drain(self, now_s: float) -> None:
        elapsed_s = now_s - self._at_s
        if elapsed_s > 0:
            self._level = max(0.0, self._level - self._rate_per_s * elapsed_s)
            self._at_s = now_s
