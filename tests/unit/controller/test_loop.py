"""The loop in virtual time."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

from libs.core.ids import IdSource
from services.controller.core.decision import Actuation
from services.controller.core.memory import EngineMemory
from services.controller.core.readings import EngineReading
from services.controller.core.record import DecisionRecord
from services.controller.core.step import decide
from services.controller.domain import ActuationResult, DecisionReason, Override, Tuning
from services.controller.loop import ControlLoop, LoopOptions, LoopPorts, NamedEffect
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.controller.samples import NO_STATE, SETTINGS, reading


class _World:
    """One engine that takes what it is sent, unless told otherwise; `kept` is the journal."""

    def __init__(self) -> None:
        self.reading = reading()
        self.error = ""
        self.paused = False
        self.overrides: dict[str, Override] = {}
        self.sent: list[NamedEffect] = []
        self.kept: list[DecisionRecord] = []
        self.ticks_at_s: list[float] = []
        self.is_broken = False
        self.woken = asyncio.Event()
        self.loop = ControlLoop(
            clock=virtual_clock(),
            ids=IdSource(clock=virtual_clock(), random=Random(1)),
            options=LoopOptions(term=3, tick_s=1.0, settings=SETTINGS),
            ports=LoopPorts(
                collect=self._collect,
                paused=lambda: self.paused,
                overrides=lambda: self.overrides,
                carry_out=self._carry_out,
                keep=self._keep,
                report=lambda _report: None,
            ),
            state=NO_STATE,
            woken=self.woken,
        )

    async def run_for(self, seconds: float) -> None:
        task = asyncio.create_task(self.loop.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _collect(self) -> tuple[EngineReading, ...]:
        self.ticks_at_s.append(virtual_clock().monotonic_s())
        if self.is_broken:
            raise RuntimeError("readings are broken")
        return (self.reading,)

    async def _carry_out(self, effects: Sequence[NamedEffect]) -> tuple[Actuation, ...]:
        self.sent += effects
        if self.error:
            return tuple(Actuation(engine_id=named.effect.engine_id, error=self.error) for named in effects)
        for named in effects:
            limit = named.effect.tuning.max_active_sequences
            assert limit is not None
            self.reading = reading(limit=limit)
        return tuple(Actuation(engine_id=named.effect.engine_id, applied=self.reading.tuning) for named in effects)

    def _keep(self, records: tuple[DecisionRecord, ...], memories: Mapping[str, EngineMemory]) -> None:
        self.kept += records
        assert all(record.decision.engine_id in memories for record in records)


def test_run_room_to_grow_grows_once_a_cooldown_to_the_engines_limit() -> None:
    async def scenario() -> _World:
        world = _World()
        await world.run_for(60.5)
        return world

    world = run_virtual(scenario())
    grown = [record for record in world.kept if record.decision.reason is DecisionReason.ROOM_TO_GROW]
    start_s = world.ticks_at_s[0]
    assert [record.decision.after.max_active_sequences for record in grown] == [24, 32, 48, 64]
    assert [record.inputs.now_s - start_s for record in grown] == [0.0, 10.0, 20.0, 30.0]


def test_run_recorded_decisions_replayed_are_the_same() -> None:
    async def scenario() -> _World:
        world = _World()
        await world.run_for(35.5)
        world.paused = True
        await world.run_for(5.0)
        return world

    records = run_virtual(scenario()).kept
    assert len(records) > 8
    assert [decide(record.inputs, SETTINGS).decision for record in records] == [record.decision for record in records]


def test_run_hold_is_kept_only_when_its_reason_is_new() -> None:
    async def scenario() -> _World:
        world = _World()
        world.reading = reading(kv_usage_ratio=0.9)
        await world.run_for(30.0)
        return world

    assert [record.decision.reason for record in run_virtual(scenario()).kept] == [DecisionReason.STEADY]


def test_run_failing_actuation_is_tried_each_tick_and_kept_once() -> None:
    async def scenario() -> _World:
        world = _World()
        world.error = "UNAVAILABLE"
        await world.run_for(5.5)
        return world

    world = run_virtual(scenario())
    assert len(world.sent) == 6
    assert [record.result for record in world.kept] == [ActuationResult.FAILED, ActuationResult.FAILED]
    assert [record.decision.reason for record in world.kept] == [DecisionReason.ROOM_TO_GROW, DecisionReason.COOLDOWN]


def test_run_woken_ticks_at_once_with_the_overrides_decision_name() -> None:
    async def scenario() -> _World:
        world = _World()
        world.paused = True
        task = asyncio.create_task(world.loop.run())
        await asyncio.sleep(0.25)
        world.overrides["batch-1"] = Override(
            engine_id="batch-1", tuning=Tuning(max_active_sequences=5), expires_at_s=9e9, reason="r", decision_id="dec-o"
        )
        world.woken.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return world

    world = run_virtual(scenario())
    assert [at_s - world.ticks_at_s[0] for at_s in world.ticks_at_s] == [0.0, 0.25]
    assert [named.decision_id for named in world.sent] == ["dec-o"]


def test_run_tick_that_fails_is_followed_by_the_next() -> None:
    async def scenario() -> _World:
        world = _World()
        world.is_broken = True
        task = asyncio.create_task(world.loop.run())
        await asyncio.sleep(2.5)
        world.is_broken = False
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return world

    world = run_virtual(scenario())
    assert len(world.ticks_at_s) == 4
    assert len(world.kept) == 1
