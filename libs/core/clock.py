"""The only file that reads the clock. Everything else is handed a `Clock`, so that tests and simulations own time."""

import time
from typing import Protocol


class Clock(Protocol):
    """Source of time."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back. For durations and deadlines."""
        ...

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump. For stamps that people or other machines read."""
        ...


class SystemClock:
    """The machine's clock. Its monotonic time is that of asyncio's default event loop."""

    def monotonic_s(self) -> float:
        """Read CLOCK_MONOTONIC."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Read CLOCK_REALTIME."""
        return time.time()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, *, monotonic_s: float = 0.0, wall_s: float = 1_700_000_000.0) -> None:
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s

    def monotonic_s(self) -> float:
        """Seconds advanced so far, from the start given."""
        return self._monotonic_s

    def wall_s(self) -> float:
        """Wall time at the start given, plus seconds advanced."""
        return self._wall_s

    def advance(self, seconds: float) -> None:
        """Move both times on. Raises ValueError for a negative step."""
        if seconds < 0:
            raise ValueError(f"seconds: {seconds} is negative; time does not go back")
        self._monotonic_s += seconds
        self._wall_s += seconds
