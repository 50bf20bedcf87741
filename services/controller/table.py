"""The engine table that routers watch: the registry's members with the observer's readings."""

import asyncio

from twinlane.controller.v1 import engines_pb2
from twinlane.engine.v1 import telemetry_pb2

from libs.core.clock import Clock
from services.controller.core.readings import EngineReading
from services.controller.observe import Observer, Received, Target
from services.controller.registry import Member, Registry
from services.controller.wire import read_engine, read_state, write_state


class EngineTable:
    """Joins registry and observer: members are observed, what they report of their state goes to the registry, and whoever
    waits for a change is woken.

    It is not to be shown until `open`: a controller that has just taken over knows no engine or only some, and routers that
    got such a table would let go of engines that serve.
    """

    def __init__(self, *, clock: Clock, term: int, registry: Registry, observer: Observer) -> None:
        self._clock = clock
        self._term = term
        self._registry = registry
        self._observer = observer
        self._changed = asyncio.Event()
        self._opened = asyncio.Event()
        self._closed = False
        registry.listen(self._take_members)
        observer.listen(self._take_snapshot)

    @property
    def closed(self) -> bool:
        """Whether the controller is stopping."""
        return self._closed

    @property
    def version(self) -> int:
        """Increases with each change of membership or state."""
        return self._registry.version

    def received(self, member: Member) -> tuple[Received | None, float | None]:
        """Return the last reading of a member and its age in seconds; None before the first."""
        received = self._observer.latest(member.descriptor.engine_id, member.descriptor.epoch)
        return received, None if received is None else self._clock.monotonic_s() - received.at_s

    def message(self) -> engines_pb2.WatchEnginesResponse:
        """Return the whole table as it is now."""
        return engines_pb2.WatchEnginesResponse(
            controller_epoch=self._term,
            version=self._registry.version,
            engines=[self._row(member) for member in self._registry.members],
        )

    def readings(self) -> tuple[EngineReading, ...]:
        """Return what the core sees of each engine, ordered by name."""
        return tuple(self._reading(member) for member in self._registry.members)

    def open(self) -> None:
        """Let the table be shown."""
        self._opened.set()

    async def wait_opened(self) -> None:
        """Return when the table may be shown, or is closed."""
        await self._opened.wait()

    async def wait_beyond(self, version: int, *, timeout_s: float) -> None:
        """Return when the table is newer than `version`, when it closes, or after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._registry.version == version and not self._closed:
                    await self._changed.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """End every watch."""
        self._closed = True
        self._opened.set()
        self._wake()

    def _take_members(self) -> None:
        self._observer.follow(_target(member) for member in self._registry.members)
        self._wake()

    def _take_snapshot(self, snapshot: telemetry_pb2.EngineSnapshot) -> None:
        state = read_state(snapshot.state)
        if state is not None:
            self._registry.hear_state(snapshot.engine_id, snapshot.epoch, state)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _row(self, member: Member) -> engines_pb2.TableEngine:
        received, age_s = self.received(member)
        row = engines_pb2.TableEngine(descriptor=member.descriptor, state=write_state(member.state))
        if received is not None and age_s is not None:
            row.snapshot.CopyFrom(received.snapshot)
            row.snapshot_age_ms = round(age_s * 1000)
        return row

    def _reading(self, member: Member) -> EngineReading:
        received, age_s = self.received(member)
        return read_engine(member.descriptor, member.state, None if received is None else received.snapshot, age_s)


def _target(member: Member) -> Target:
    descriptor = member.descriptor
    return Target(engine_id=descriptor.engine_id, epoch=descriptor.epoch, address=descriptor.address)
