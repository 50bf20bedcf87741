"""Which batch request gives way when a realtime request finds no slot or no blocks."""

from collections.abc import Sequence
from typing import NamedTuple


class Victim(NamedTuple):
    """A batch request that could be put back. `lost_tokens`: computed tokens that would have to be computed again."""

    request_id: str
    lost_tokens: int


class PreemptionGate:
    """At most `rate_per_s` preemptions over time and `burst` at once: thrashing costs more than waiting."""

    def __init__(self, *, rate_per_s: float, burst: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = burst
        self._at_s: float | None = None

    def allows(self, now_s: float) -> bool:
        """Take one preemption where it is within the rate."""
        if self._at_s is not None:
            self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._rate_per_s)
        self._at_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def choose_victim(candidates: Sequence[Victim]) -> Victim | None:
    """Return the request with the least work to lose, None where there is none."""
    return min(candidates, key=lambda victim: (victim.lost_tokens, victim.request_id), default=None)
