"""How many items may be in flight: grows while all goes well, halves on refusals (AIMD)."""

_SHRINK_RATIO = 0.5
# One more item for each full window of successes, as TCP's congestion avoidance (RFC 5681, 3.1).
_MIN_LIMIT = 1.0


class Room:
    """The batch lane's own limit, between 1 and `max_in_flight`. Starts at half of it."""

    def __init__(self, *, max_in_flight: int) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight: {max_in_flight} must be at least 1")
        self._max = float(max_in_flight)
        self._limit = max(_MIN_LIMIT, self._max / 2)

    @property
    def limit(self) -> int:
        """Items that may be in flight now."""
        return int(self._limit)

    def succeeded(self, *, in_flight: int) -> None:
        """An item was answered. No growth while the limit is not what limits."""
        if in_flight >= self.limit:
            self._limit = min(self._max, self._limit + 1 / self._limit)

    def refused(self) -> None:
        """The mesh had no room for an item."""
        self._limit = max(_MIN_LIMIT, self._limit * _SHRINK_RATIO)
