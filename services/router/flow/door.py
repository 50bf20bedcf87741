"""Layer: who is let in. Knows how many calls run, so that a stop can wait for the last one."""

import asyncio
from types import TracebackType

from services.router.domain import AllDrainingError


class Door:
    """Open until the router drains. Used on one event loop."""

    def __init__(self) -> None:
        self._running = 0
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    def passed(self) -> "_Pass":
        """Count a call while the context is entered. Entering raises AllDrainingError once the door is closed."""
        return _Pass(self)

    def close(self) -> None:
        """Let no further call in."""
        self._closed = True

    async def wait_empty(self, *, limit_s: float) -> None:
        """Return when no call runs, or after `limit_s`."""
        try:
            async with asyncio.timeout(limit_s):
                await self._empty.wait()
        except TimeoutError:
            return

    def enter(self) -> None:
        """A call comes; it must leave. Raises AllDrainingError."""
        if self._closed:
            raise AllDrainingError("this router is draining")
        self._running += 1
        self._empty.clear()

    def leave(self) -> None:
        """A call that entered has ended."""
        self._running -= 1
        if self._running == 0:
            self._empty.set()


class _Pass:
    """One call's stay. A generator-based context would cost each call several times as much."""

    __slots__ = ("_door",)

    def __init__(self, door: Door) -> None:
        self._door = door

    def __enter__(self) -> None:
        self._door.enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._door.leave()
