"""How soon the next realtime request is to be expected, from those that came."""

import math
from dataclasses import dataclass

# Weight of the newest gap: the mean follows a change of the rate within some ten arrivals.
_GAP_WEIGHT = 0.15
# Requests of one instant count as this far apart.
_MIN_GAP_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Arrivals seen so far: when the last one came, and the smoothed gap between them (None before the second)."""

    last_s: float | None = None
    mean_gap_s: float | None = None


def arrived(seen: Arrivals, *, now_s: float) -> Arrivals:
    """Return `seen` with one more arrival, at `now_s`."""
    if seen.last_s is None:
        return Arrivals(last_s=now_s)
    gap_s = max(now_s - seen.last_s, _MIN_GAP_S)
    if seen.mean_gap_s is None:
        return Arrivals(last_s=now_s, mean_gap_s=gap_s)
    return Arrivals(last_s=now_s, mean_gap_s=seen.mean_gap_s + _GAP_WEIGHT * (gap_s - seen.mean_gap_s))


def expected_gap_s(seen: Arrivals, *, now_s: float) -> float:
    """Return the expected seconds to the next arrival, infinite where fewer than two were seen.

    Without an arrival the expectation grows with the silence, so that traffic that ended is soon not waited for.
    """
    if seen.last_s is None or seen.mean_gap_s is None:
        return math.inf
    return max(seen.mean_gap_s, now_s - seen.last_s)


def arrival_probability(seen: Arrivals, *, now_s: float, within_s: float) -> float:
    """Return the probability of an arrival in the next `within_s`, arrivals being independent of one another (Poisson)."""
    return -math.expm1(-within_s / expected_gap_s(seen, now_s=now_s))


def longest_quiet_s(seen: Arrivals, *, now_s: float, risk: float) -> float:
    """Return the longest time in which an arrival is at most as probable as `risk` (above 0, below 1)."""
    if not 0 < risk < 1:
        raise ValueError(f"risk: {risk} must lie between 0 and 1")
    return -math.log1p(-risk) * expected_gap_s(seen, now_s=now_s)
