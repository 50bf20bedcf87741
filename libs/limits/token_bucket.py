"""Token bucket: a sustained rate with bursts."""

import math

from libs.limits.verdict import Grant, Refusal, Verdict

# A wait is told in floating-point seconds; who comes back after it must not be refused for the last rounding.
_ROUNDING_S = 1e-6


class TokenBucket:
    """Admits at most `burst` + `rate_per_s` · t of cost in any t seconds (to a microsecond's refill), and starts full.

    The level is what may be taken at once. It never exceeds `burst`; `settle` may drive it below 0, and then nothing is granted
    until the debt has been refilled. Time may stand still but is never taken to go back.
    """

    def __init__(self, *, rate_per_s: float, burst: float, now_s: float) -> None:
        if not (0 < rate_per_s < math.inf):
            raise ValueError(f"rate_per_s: {rate_per_s} must be above 0 and finite")
        if not (0 < burst < math.inf):
            raise ValueError(f"burst: {burst} must be above 0 and finite")
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._level = burst
        self._at_s = now_s

    def level(self, *, now_s: float) -> float:
        """Return what may be taken at `now_s`; negative in debt."""
        self._refill(now_s)
        return self._level

    def try_take(self, cost: float, *, now_s: float) -> Verdict:
        """Take `cost` (at least 0, fractions allowed) in full or not at all."""
        if not cost >= 0:
            raise ValueError(f"cost: {cost} must be at least 0")
        self._refill(now_s)
        missing = cost - self._level
        if missing > self._rate_per_s * _ROUNDING_S:
            never = cost > self._burst
            return Refusal(retry_after_s=math.inf if never else missing / self._rate_per_s)
        self._level -= cost
        return Grant()

    def settle(self, delta: float) -> None:
        """Correct an earlier cost by what it turned out to be: above 0 takes more, below 0 gives back."""
        self._level = min(self._burst, self._level - delta)

    def _refill(self, now_s: float) -> None:
        elapsed_s = now_s - self._at_s
        if elapsed_s > 0:
            self._level = min(self._burst, self._level + self._rate_per_s * elapsed_s)
            self._at_s = now_s
