"""Operators' standing orders: the pause and the overrides. Held in memory, kept in the journal."""

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from libs.core.clock import Clock
from services.controller.domain import Override, Pause
from services.controller.journal.store import JournalStore, OrderEntry
from services.controller.journal.writer import Journal, Write

_log = structlog.get_logger(__name__)


class StandingOrders:
    """Owns them. `on_change` is called after each change, so that it takes effect at once.

    An order holds from the moment it is given. Where it cannot be written, the log and the journal's metrics say so.
    """

    def __init__(
        self, *, clock: Clock, journal: Journal, pause: Pause, overrides: tuple[Override, ...], on_change: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._pause = pause
        self._overrides = {override.engine_id: override for override in overrides}
        self._on_change = on_change

    @property
    def pause(self) -> Pause:
        """The pause in force."""
        return self._pause

    @property
    def overrides(self) -> Mapping[str, Override]:
        """Overrides in force, by engine."""
        self._expire()
        return dict(self._overrides)

    async def set_pause(self, pause: Pause, *, reason: str) -> None:
        """Pause or resume."""
        self._pause = pause
        entry = self._entry("PAUSE" if pause.paused else "RESUME", reason)
        await self._keep(lambda store: store.put_pause(pause, entry), entry)

    async def set_override(self, override: Override) -> None:
        """Put an override in place of the engine's earlier one."""
        self._overrides[override.engine_id] = override
        entry = self._entry("SET_OVERRIDE", override.reason, override.engine_id)
        await self._keep(lambda store: store.put_override(override, entry), entry)

    async def clear_override(self, engine_id: str, *, reason: str) -> bool:
        """End an override; return whether there was one."""
        if engine_id not in self.overrides:
            return False
        del self._overrides[engine_id]
        entry = self._entry("CLEAR_OVERRIDE", reason, engine_id)
        await self._keep(lambda store: store.drop_override(engine_id, entry), entry)
        return True

    def _expire(self) -> None:
        now_s = self._clock.wall_s()
        for engine_id in [name for name, override in self._overrides.items() if override.expires_at_s <= now_s]:
            del self._overrides[engine_id]
            _log.info("override expired", engine_id=engine_id)
            self._journal.write(partial(JournalStore.drop_override, engine_id=engine_id, entry=None))

    async def _keep(self, write: Write, entry: OrderEntry) -> None:
        _log.info("operator's order", kind=entry.kind, engine_id=entry.engine_id, reason=entry.reason)
        self._on_change()
        if not await self._journal.write_through(write):
            _log.error("the order holds but is not on disk; a restart may forget it", kind=entry.kind)

    def _entry(self, kind: str, reason: str, engine_id: str = "") -> OrderEntry:
        return OrderEntry(at_s=self._clock.wall_s(), kind=kind, reason=reason, engine_id=engine_id)
