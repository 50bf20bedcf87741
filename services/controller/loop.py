"""The control loop: clock → collect → step → actuate → journal, again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from libs.core.clock import Clock
from libs.core.ids import IdSource
from services.controller.core.decision import Actuation, SendTuning
from services.controller.core.memory import ControllerState, EngineMemory
from services.controller.core.readings import EngineReading, Tick
from services.controller.core.record import DecisionRecord, is_noteworthy
from services.controller.core.settings import StepSettings
from services.controller.core.step import Verdict, settle, step
from services.controller.domain import ActuationResult, DecisionAction, Override

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class NamedEffect:
    """An effect and the name of the decision behind it."""

    effect: SendTuning
    decision_id: str


@dataclass(frozen=True, kw_only=True)
class TickReport:
    """What one tick came to: every record, the state after it, and whether the laws are paused."""

    records: tuple[DecisionRecord, ...]
    state: ControllerState
    paused: bool
    took_s: float


@dataclass(frozen=True, kw_only=True)
class LoopPorts:
    """What the loop reads from and acts on.

    `collect` returns engines ordered by name; `carry_out` returns one actuation for each effect and never raises;
    `keep` journals noteworthy records with the memories after them, without waiting; `report` hears of every tick.
    """

    collect: Callable[[], tuple[EngineReading, ...]]
    paused: Callable[[], bool]
    overrides: Callable[[], Mapping[str, Override]]
    carry_out: Callable[[Sequence[NamedEffect]], Awaitable[tuple[Actuation, ...]]]
    keep: Callable[[tuple[DecisionRecord, ...], Mapping[str, EngineMemory]], None]
    report: Callable[[TickReport], None]


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Term of this controller, time between ticks, settings of the core."""

    term: int
    tick_s: float
    settings: StepSettings


class ControlLoop:
    """Owns the core's state and the last decision about each engine. Setting `woken` makes the next tick come at once."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: IdSource,
        options: LoopOptions,
        ports: LoopPorts,
        state: ControllerState,
        woken: asyncio.Event,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._options = options
        self._ports = ports
        self._state = state
        self._latest: dict[str, DecisionRecord] = {}
        self._woken = woken

    def latest(self, engine_id: str) -> DecisionRecord | None:
        """Return the last decision about an engine, or None before the first."""
        return self._latest.get(engine_id)

    async def run(self) -> None:
        """Tick until cancelled. A tick that fails is logged, and the next one comes as if it had not."""
        while True:
            self._woken.clear()
            try:
                await self.tick()
            except Exception:
                _log.exception("tick failed")
            await self._pause()

    async def tick(self) -> TickReport:
        """Decide once about every engine and carry it out."""
        began_s = self._clock.monotonic_s()
        tick = self._read(began_s)
        result = step(self._state, tick, self._options.settings)
        named = tuple((self._name(verdict), verdict) for verdict in result.verdicts)
        actuations = await self._ports.carry_out(_effects(named))
        now_s = self._clock.monotonic_s()
        self._state = settle(result.state, actuations, now_s=now_s)
        outcomes = {actuation.engine_id: actuation for actuation in actuations}
        records = tuple(self._record(name, verdict, outcomes) for name, verdict in named)
        self._keep(records)
        report = TickReport(records=records, state=self._state, paused=tick.paused, took_s=now_s - began_s)
        self._ports.report(report)
        return report

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._options.tick_s):
                await self._woken.wait()
        except TimeoutError:
            return

    def _read(self, now_s: float) -> Tick:
        return Tick(
            now_s=now_s,
            wall_s=self._clock.wall_s(),
            engines=self._ports.collect(),
            paused=self._ports.paused(),
            overrides=self._ports.overrides(),
        )

    def _name(self, verdict: Verdict) -> str:
        return verdict.decision.override_id or self._ids.next("dec")

    def _record(self, name: str, verdict: Verdict, outcomes: Mapping[str, Actuation]) -> DecisionRecord:
        actuation = outcomes.get(verdict.decision.engine_id)
        return DecisionRecord(
            decision_id=name,
            term=self._options.term,
            decided_at_s=verdict.inputs.wall_s,
            decision=verdict.decision,
            result=_result(verdict, actuation),
            error="" if actuation is None else actuation.error,
            inputs=verdict.inputs,
        )

    def _keep(self, records: tuple[DecisionRecord, ...]) -> None:
        before = self._latest
        self._latest = {record.decision.engine_id: record for record in records}
        noteworthy = tuple(record for record in records if is_noteworthy(record, before.get(record.decision.engine_id)))
        for record in noteworthy:
            _log_decision(record)
        if noteworthy:
            self._ports.keep(noteworthy, self._state.engines)


def _effects(named: Sequence[tuple[str, Verdict]]) -> tuple[NamedEffect, ...]:
    return tuple(NamedEffect(effect=verdict.effect, decision_id=name) for name, verdict in named if verdict.effect is not None)


def _result(verdict: Verdict, actuation: Actuation | None) -> ActuationResult:
    if actuation is None or verdict.effect is None:
        return ActuationResult.NONE
    if actuation.error:
        return ActuationResult.FAILED
    return ActuationResult.NONE if verdict.effect.is_renewal else ActuationResult.APPLIED


def _log_decision(record: DecisionRecord) -> None:
    log = _log.debug if record.decision.action is DecisionAction.HOLD and not record.error else _log.info
    log(
        "decision",
        engine_id=record.decision.engine_id,
        action=record.decision.action.name,
        reason=record.decision.reason.name,
        why=record.decision.explanation,
        result=record.result.name,
        error=record.error,
    )
