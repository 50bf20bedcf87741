"""The router's engine table: one owner of every engine's slot."""

import asyncio
from collections.abc import Callable, Iterable

import structlog
from twinlane.common.v1 import engine_pb2
from twinlane.controller.v1 import engines_pb2

from libs.core.clock import Clock
from services.router.domain import EngineState, EngineView, TableSource
from services.router.engines.client import EngineClient
from services.router.engines.slot import EngineSlot, Lease, to_reading

_log = structlog.get_logger(__name__)

OpenClient = Callable[[str], EngineClient]


class EngineTable:
    """Engines by name. Updated by one feed (feed.py), read by every call, all on one event loop."""

    def __init__(self, *, clock: Clock, open_client: OpenClient, fresh_s: float, suspect_s: float) -> None:
        self._clock = clock
        self._open_client = open_client
        self._fresh_s = fresh_s
        self._suspect_s = suspect_s
        self._slots: dict[str, EngineSlot] = {}
        self._retired: set[EngineSlot] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self.source = TableSource.STATIC
        self.version = 0

    @property
    def slots(self) -> tuple[EngineSlot, ...]:
        """Every engine, by name."""
        return tuple(self._slots[name] for name in sorted(self._slots))

    @property
    def fresh_s(self) -> float:
        """Age up to which a reading is fresh, in seconds."""
        return self._fresh_s

    def views(self) -> list[EngineView]:
        """Return every engine as a choice sees it now."""
        now_s = self._clock.monotonic_s()
        return [slot.view(now_s=now_s, fresh_s=self._fresh_s) for slot in self._slots.values()]

    def take(self, engine_id: str, prompt_tokens: int) -> Lease:
        """Return a place on an engine that is in the table."""
        return self._slots[engine_id].take(prompt_tokens)

    def suspect(self, slot: EngineSlot) -> None:
        """A call there failed: pass the engine over until it is heard of again."""
        slot.suspect_until_s = self._clock.monotonic_s() + self._suspect_s

    def release(self, lease: Lease) -> None:
        """End a call's place; the last one on a retired engine closes its channel."""
        lease.release()
        slot = lease.slot
        if slot.retired and slot.in_flight == 0:
            self._close(slot)

    def apply(self, table: engines_pb2.WatchEnginesResponse) -> None:
        """Take the controller's whole table."""
        now_s = self._clock.monotonic_s()
        self._keep(row.descriptor for row in table.engines)
        for row in table.engines:
            slot = self._slots[row.descriptor.engine_id]
            self._set_state(slot, EngineState(row.state))
            if row.HasField("snapshot"):
                slot.read(to_reading(row.snapshot, taken_at_s=now_s - row.snapshot_age_ms / 1000))
        self.source = TableSource.CONTROLLER
        self.version = table.version

    def apply_static(self, engines: Iterable[tuple[engine_pb2.EngineDescriptor, EngineState]]) -> None:
        """Take the static list, with what its engines said of themselves."""
        listed = list(engines)
        self._keep(descriptor for descriptor, _ in listed)
        for descriptor, state in listed:
            self._set_state(self._slots[descriptor.engine_id], state)
        self.source = TableSource.STATIC
        self.version = 0

    def retain(self) -> None:
        """The controller is away: go on with what it said last."""
        if self.source is TableSource.CONTROLLER:
            self.source = TableSource.RETAINED

    async def close(self) -> None:
        """Close every channel."""
        for slot in [*self._slots.values(), *self._retired]:
            self._close(slot)
        self._slots.clear()
        await asyncio.gather(*self._closing)

    def check_integrity(self) -> None:
        """Raise AssertionError where an engine's counts cannot be."""
        for slot in [*self._slots.values(), *self._retired]:
            slot.check_integrity()

    def _keep(self, descriptors: Iterable[engine_pb2.EngineDescriptor]) -> None:
        """Make the table hold exactly these engines; another epoch or address is another life."""
        wanted = {descriptor.engine_id: descriptor for descriptor in descriptors}
        for name, slot in list(self._slots.items()):
            descriptor = wanted.get(name)
            if descriptor is None or _is_new_life(slot.descriptor, descriptor):
                self._retire(name)
            elif descriptor.epoch or not slot.descriptor.epoch:
                slot.descriptor = descriptor
        for name, descriptor in wanted.items():
            if name not in self._slots:
                _log.info("engine joined", engine_id=name, address=descriptor.address, pool=descriptor.pool)
                self._slots[name] = EngineSlot(descriptor, self._open_client(descriptor.address))

    def _retire(self, name: str) -> None:
        slot = self._slots.pop(name)
        slot.retired = True
        _log.info("engine left", engine_id=name, address=slot.descriptor.address, in_flight=slot.in_flight)
        if slot.in_flight:
            self._retired.add(slot)
        else:
            self._close(slot)

    def _close(self, slot: EngineSlot) -> None:
        self._retired.discard(slot)
        task = asyncio.get_running_loop().create_task(slot.client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @staticmethod
    def _set_state(slot: EngineSlot, state: EngineState) -> None:
        if slot.state is not state:
            _log.info("engine state", engine_id=slot.descriptor.engine_id, state=state.name, was=slot.state.name)
            slot.state = state


def _is_new_life(known: engine_pb2.EngineDescriptor, now: engine_pb2.EngineDescriptor) -> bool:
    """A static entry has epoch 0 until its engine was asked, and again while it does not answer: neither is a new life."""
    return known.address != now.address or (known.epoch != now.epoch and known.epoch != 0 and now.epoch != 0)
