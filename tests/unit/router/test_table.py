"""Whose life an engine's slot is, and what a table does with news of it."""

from twinlane.common.v1 import engine_pb2
from twinlane.controller.v1 import engines_pb2

from libs.core.clock import ManualClock
from services.router.domain import EngineState, TableSource
from services.router.engines.client import EngineClient
from services.router.engines.table import EngineTable
from tests.support.virtual_time import run_virtual


class SilentClient(EngineClient):
    """Counts how often it is closed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class Opened:
    """Every client that a table opened, in order."""

    def __init__(self) -> None:
        self.clients: list[SilentClient] = []
        self.table = EngineTable(clock=ManualClock(), open_client=self._open, fresh_s=3, suspect_s=1)

    def _open(self, address: str) -> EngineClient:
        self.clients.append(SilentClient(address))
        return self.clients[-1]


def descriptor(*, epoch: int, address: str = "h:1", context: int = 512) -> engine_pb2.EngineDescriptor:
    limits = engine_pb2.EngineLimits(max_context_tokens=context)
    return engine_pb2.EngineDescriptor(engine_id="e", epoch=epoch, address=address, pool="p", limits=limits)


def test_static_engine_that_does_not_answer_once_keeps_its_life_and_its_calls() -> None:
    async def scenario() -> None:
        opened = Opened()
        table = opened.table
        table.apply_static([(descriptor(epoch=0), EngineState.UNHEALTHY)])
        table.apply_static([(descriptor(epoch=7, context=4096), EngineState.SERVING)])
        lease = table.take("e", 10)
        table.apply_static([(descriptor(epoch=0), EngineState.UNHEALTHY)])
        (slot,) = table.slots
        assert (slot.in_flight, slot.state) == (1, EngineState.UNHEALTHY)
        assert (slot.descriptor.epoch, slot.descriptor.limits.max_context_tokens) == (7, 4096)
        assert len(opened.clients) == 1
        table.release(lease)
        table.check_integrity()
        await table.close()

    run_virtual(scenario())


def test_new_epoch_and_new_address_are_new_lives() -> None:
    async def scenario() -> None:
        opened = Opened()
        for known in (descriptor(epoch=7), descriptor(epoch=8), descriptor(epoch=8, address="h:2")):
            opened.table.apply_static([(known, EngineState.SERVING)])
        assert [client.address for client in opened.clients] == ["h:1", "h:1", "h:2"]
        await opened.table.close()
        assert [client.closed for client in opened.clients] == [1, 1, 1]

    run_virtual(scenario())


def test_client_of_an_engine_that_left_is_closed_with_its_last_call() -> None:
    async def scenario() -> None:
        opened = Opened()
        opened.table.apply_static([(descriptor(epoch=7), EngineState.SERVING)])
        first, second = opened.table.take("e", 10), opened.table.take("e", 10)
        opened.table.apply_static([])
        opened.table.release(first)
        assert opened.clients[0].closed == 0
        opened.table.release(second)
        opened.table.check_integrity()
        await opened.table.close()
        assert opened.clients[0].closed == 1

    run_virtual(scenario())


def test_state_that_only_newer_engines_know_is_no_state_to_serve_in() -> None:
    async def scenario() -> None:
        table = Opened().table
        row = engines_pb2.TableEngine(descriptor=descriptor(epoch=7))
        row.MergeFromString(b"\x10\x63")  # field 2 (state), 99
        table.apply(engines_pb2.WatchEnginesResponse(version=3, engines=[row]))
        assert [slot.state for slot in table.slots] == [EngineState.UNSPECIFIED]
        assert (table.source, table.version) == (TableSource.CONTROLLER, 3)
        await table.close()

    run_virtual(scenario())
