"""Readings of the whole engine, numbered within its epoch."""

import asyncio
from dataclasses import dataclass

from libs.core.clock import Clock
from services.engine.backend.base import Backend
from services.engine.domain import BackendSnapshot, EngineState, TuningValues
from services.engine.serving.identity import IdentityCard
from services.engine.serving.ledger import LaneReading, Ledger
from services.engine.serving.life import Life
from services.engine.serving.tuning import TuningDesk


@dataclass(frozen=True, kw_only=True)
class EngineReading:
    """One reading of everything; names as in twinlane.engine.v1.EngineSnapshot, times in seconds."""

    engine_id: str
    epoch: int
    sequence: int
    taken_at_s: float
    state: EngineState
    lanes: list[LaneReading]
    tuning: TuningValues
    backend: BackendSnapshot
    prompt_tokens_per_s: float | None
    completion_tokens_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a reading is read from."""

    card: IdentityCard
    life: Life
    ledger: Ledger
    desk: TuningDesk
    backend: Backend


# What is compared to see whether anything changed.
Fingerprint = tuple[int, int, EngineState, TuningValues]


class Telemetry:
    """Takes readings; each gets the next sequence number of the epoch, whoever reads it."""

    def __init__(self, sources: Sources, *, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._sequence = 0
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether streams of readings must end."""
        return self._closed.is_set()

    def close(self) -> None:
        """End every stream of readings."""
        self._closed.set()

    def fingerprint(self) -> Fingerprint:
        """Return what differs when something changed; cheap."""
        sources = self._sources
        steps_total = sources.backend.snapshot().steps_total
        return steps_total, sources.ledger.changes, sources.life.state, sources.desk.values

    def read(self) -> EngineReading:
        """Take a reading now."""
        sources = self._sources
        self._sequence += 1
        return EngineReading(
            engine_id=sources.card.identity.engine_id,
            epoch=sources.card.identity.epoch,
            sequence=self._sequence,
            taken_at_s=self._clock.wall_s(),
            state=sources.life.state,
            lanes=sources.ledger.readings(),
            tuning=sources.desk.values,
            backend=sources.backend.snapshot(),
            prompt_tokens_per_s=sources.ledger.prompt_tokens_per_s(),
            completion_tokens_per_s=sources.ledger.completion_tokens_per_s(),
        )

    async def rest(self, seconds: float) -> None:
        """Wait, or until closed."""
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            return
