"""The engines of the mesh: who registered, until when, in what state."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog
from twinlane.common.v1 import engine_pb2

from libs.core.clock import Clock
from libs.rpc.address import split_address
from services.controller.domain import EngineState

_log = structlog.get_logger(__name__)

# Routers must hear of a lost engine well within a second of its lease's end.
EXPIRY_CHECK_S = 0.1
_NAME = re.compile(r"[a-z0-9-]{1,63}")


class StaleEpochError(Exception):
    """An older start of an engine spoke after a newer one."""

    def __init__(self, *, engine_id: str, epoch: int, newest: int) -> None:
        self.engine_id, self.epoch, self.newest = engine_id, epoch, newest
        super().__init__(f"engine {engine_id!r}: epoch {epoch} is older than the registered {newest}")


class UnknownEngineError(Exception):
    """No engine of that name is registered."""

    def __init__(self, engine_id: str) -> None:
        self.engine_id = engine_id
        super().__init__(f"engine {engine_id!r} is not registered")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One registered engine; `lease_until_s` is monotonic."""

    descriptor: engine_pb2.EngineDescriptor
    state: EngineState
    lease_until_s: float


class Registry:
    """Owns the members. `version` starts at 1 and increases with each change of membership or of a state; renewals are no
    change."""

    def __init__(self, *, clock: Clock, lease_s: float) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._listeners: list[Callable[[], None]] = []
        self._members: dict[str, Member] = {}
        self.version = 1

    @property
    def members(self) -> tuple[Member, ...]:
        """Members ordered by name."""
        return tuple(self._members[name] for name in sorted(self._members))

    def member(self, engine_id: str) -> Member:
        """Return a member. Raises UnknownEngineError."""
        if engine_id not in self._members:
            raise UnknownEngineError(engine_id)
        return self._members[engine_id]

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    def register(self, descriptor: engine_pb2.EngineDescriptor, state: EngineState) -> None:
        """Add an engine or renew its lease. A newer epoch replaces the older; raises StaleEpochError for an older one."""
        known = self._members.get(descriptor.engine_id)
        if known is not None and descriptor.epoch < known.descriptor.epoch:
            raise StaleEpochError(engine_id=descriptor.engine_id, epoch=descriptor.epoch, newest=known.descriptor.epoch)
        lease_until_s = self._clock.monotonic_s() + self._lease_s
        self._members[descriptor.engine_id] = Member(descriptor=descriptor, state=state, lease_until_s=lease_until_s)
        if known is None or known.state is not state or known.descriptor != descriptor:
            self._changed()

    def deregister(self, engine_id: str, epoch: int) -> bool:
        """Remove an engine unless a newer epoch of it is registered; return whether one was removed."""
        known = self._members.get(engine_id)
        if known is None or known.descriptor.epoch > epoch:
            return False
        del self._members[engine_id]
        self._changed()
        return True

    def hear_state(self, engine_id: str, epoch: int, state: EngineState) -> None:
        """Take a state from telemetry. It renews no lease; other epochs are ignored."""
        known = self._members.get(engine_id)
        if known is not None and known.descriptor.epoch == epoch and known.state is not state:
            self._members[engine_id] = replace(known, state=state)
            self._changed()

    def expire(self) -> tuple[str, ...]:
        """Remove engines whose lease has run out and return their names."""
        now_s = self._clock.monotonic_s()
        gone = tuple(name for name, member in self._members.items() if member.lease_until_s <= now_s)
        for name in gone:
            del self._members[name]
        if gone:
            self._changed()
        return gone

    async def run(self) -> None:
        """Remove engines as their leases run out, until cancelled."""
        while True:
            await asyncio.sleep(EXPIRY_CHECK_S)
            for engine_id in self.expire():
                _log.warning("engine lost: its lease ran out", engine_id=engine_id)

    def _changed(self) -> None:
        self.version += 1
        for listener in self._listeners:
            listener()


def descriptor_faults(descriptor: engine_pb2.EngineDescriptor) -> tuple[tuple[str, str], ...]:
    """Return every fault of a descriptor as (field path, what is wrong)."""
    limits = descriptor.limits
    checks = (
        ("engine_id", _NAME.fullmatch(descriptor.engine_id) is None, 'must be 1 to 63 of "a-z", "0-9" and "-"'),
        ("epoch", descriptor.epoch == 0, "must be above 0"),
        ("address", not _is_address(descriptor.address), "must be host:port with a port above 0"),
        ("pool", not descriptor.pool, "is required"),
        ("model", not descriptor.model, "is required"),
        ("limits.max_context_tokens", limits.max_context_tokens == 0, "must be above 0"),
        ("limits.max_active_sequences", limits.max_active_sequences == 0, "must be above 0"),
        ("limits.max_batched_tokens", limits.max_batched_tokens == 0, "must be above 0"),
    )
    return tuple((f"descriptor.{path}", words) for path, is_fault, words in checks if is_fault)


def _is_address(address: str) -> bool:
    try:
        return split_address(address)[1] > 0
    except ValueError:
        return False
