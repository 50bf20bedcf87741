"""asyncio in virtual time: sleeping costs nothing, and time moves only when every task waits for it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class StuckError(RuntimeError):
    """Every task waits and none waits for time: in real life this would hang for ever."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, moves its loop's time on."""

    now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready:
            if timeout is None:
                raise StuckError("all tasks wait and no timer is set")
            self.now_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time() is virtual. It is a libs.core.clock.Clock too."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def monotonic_s(self) -> float:
        return self._jumping.now_s

    def wall_s(self) -> float:
        return 1_700_000_000.0 + self._jumping.now_s


def run_virtual(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end in virtual time. Raises StuckError where it would hang."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def virtual_clock() -> VirtualTimeLoop:
    """Return the running virtual loop, to be handed on as a clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop
