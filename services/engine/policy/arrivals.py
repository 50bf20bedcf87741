"""Whether a realtime request is to be expected soon, from how often they came so far."""

import math

# Weight of the newest gap: some ten arrivals make the average.
_WEIGHT = 0.1
# Half an hour without arrivals is a new day.
_FORGET_S = 1800.0


class ArrivalForecast:
    """Mean gap between arrivals, exponentially weighted. Arrivals are taken as a Poisson process: the chance of at least one
    within t is 1 - exp(-t / mean gap)."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._gap_s: float | None = None

    def arrived(self, now_s: float) -> None:
        """Take an arrival."""
        if self._last_s is not None:
            gap_s = now_s - self._last_s
            if gap_s > _FORGET_S or self._gap_s is None:
                self._gap_s = min(gap_s, _FORGET_S)
            else:
                self._gap_s += _WEIGHT * (gap_s - self._gap_s)
        self._last_s = now_s

    def chance_within(self, horizon_s: float, now_s: float) -> float:
        """Return the chance of an arrival within `horizon_s`, 0 to 1; 0 before the second arrival.

        A silence longer than the mean gap counts as a gap of its own, so that the chance falls when arrivals stop.
        """
        if self._last_s is None or self._gap_s is None:
            return 0.0
        gap_s = max(self._gap_s, (now_s - self._last_s) / 2, 1e-6)
        return -math.expm1(-horizon_s / gap_s)
