"""All that one decision about one engine depends on, so that a journal of these can be replayed."""

from dataclasses import dataclass

from services.controller.core.memory import EngineMemory
from services.controller.core.readings import EngineReading
from services.controller.core.settings import LawSettings
from services.controller.domain import NO_TUNING, Override, Tuning

_SEQUENCES = Tuning(max_active_sequences=1)


@dataclass(frozen=True, kw_only=True)
class EngineInputs:
    """One engine at one tick. `override` is the operator's, expired or not; None where there is none."""

    now_s: float
    wall_s: float
    paused: bool
    override: Override | None
    reading: EngineReading
    memory: EngineMemory

    @property
    def live_override(self) -> Override | None:
        """The override, unless it has expired."""
        if self.override is None or self.override.expires_at_s <= self.wall_s:
            return None
        return self.override

    @property
    def overridden(self) -> Tuning:
        """Values that an override fixes now, within the engine's limits."""
        live = self.live_override
        return NO_TUNING if live is None else live.tuning.clamped(self.reading.limits)

    @property
    def current(self) -> Tuning:
        """Tuning that is wanted now, else in force."""
        return self.memory.target.over(self.reading.tuning)


def governed(reading: EngineReading, law: LawSettings) -> Tuning:
    """Return a mask of the values that the laws set on this engine."""
    return _SEQUENCES if reading.pool in law.pools else NO_TUNING
