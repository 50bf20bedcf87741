"""The door of a router that drains."""

import asyncio

import pytest

from services.router.domain import AllDrainingError
from services.router.flow.door import Door
from tests.support.virtual_time import run_virtual, virtual_clock


def test_closed_door_refuses_and_lets_those_inside_out() -> None:
    async def scenario() -> None:
        door = Door()
        with door.passed():
            door.close()
            with pytest.raises(AllDrainingError), door.passed():
                pass
            waiting = asyncio.create_task(door.wait_empty(limit_s=30))
            await asyncio.sleep(1)
            assert not waiting.done()
        began_s = virtual_clock().monotonic_s()
        await waiting
        assert virtual_clock().monotonic_s() == began_s

    run_virtual(scenario())


def test_wait_ends_at_its_limit_with_a_call_inside() -> None:
    async def scenario() -> float:
        door, began_s = Door(), virtual_clock().monotonic_s()
        with door.passed():
            await door.wait_empty(limit_s=30)
        return virtual_clock().monotonic_s() - began_s

    assert run_virtual(scenario()) == 30


def test_call_that_fails_leaves_too() -> None:
    async def scenario() -> None:
        door = Door()
        with pytest.raises(ValueError, match="broken"), door.passed():
            raise ValueError("broken")
        await door.wait_empty(limit_s=0.001)
        assert virtual_clock().monotonic_s() == 1000.0

    run_virtual(scenario())
