"""The controller's whole mind: memory and readings in, memory, decisions and effects out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from services.controller.core import holding, orders
from services.controller.core.decision import Actuation, Decision, SendTuning
from services.controller.core.guards import guard
from services.controller.core.inputs import EngineInputs
from services.controller.core.law import LawInput, Proposal, propose
from services.controller.core.memory import ControllerState, EngineMemory
from services.controller.core.readings import EngineReading, Tick
from services.controller.core.settings import StepSettings
from services.controller.domain import DecisionAction, DecisionReason, Tuning

# An engine that stays away for longer is a new one when it comes back.
FORGET_AFTER_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome of one tick for one engine. `inputs` gives the same verdict again."""

    inputs: EngineInputs
    memory: EngineMemory
    decision: Decision
    effect: SendTuning | None


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """Outcome of one tick: new state, and one verdict for each engine of the tick, in its order."""

    state: ControllerState
    verdicts: tuple[Verdict, ...]

    @property
    def effects(self) -> tuple[SendTuning, ...]:
        """What is to be sent, at most one effect for each engine."""
        return tuple(verdict.effect for verdict in self.verdicts if verdict.effect is not None)


def step(state: ControllerState, tick: Tick, settings: StepSettings) -> StepResult:
    """Decide about every engine. Deterministic; engines do not affect one another."""
    verdicts = tuple(decide(_inputs(state, tick, reading, settings), settings) for reading in tick.engines)
    seen = {verdict.decision.engine_id: verdict.memory for verdict in verdicts}
    return StepResult(state=ControllerState(engines={**_remembered(state, tick.now_s), **seen}), verdicts=verdicts)


def decide(inputs: EngineInputs, settings: StepSettings) -> Verdict:
    """Decide about one engine."""
    obstacle = guard(inputs, settings)
    memory = inputs.memory if inputs.memory.fenced else orders.carry_out(inputs, settings)
    if memory.target != inputs.memory.target or memory.override_id != inputs.memory.override_id:
        action, reason, words = orders.verdict_words(inputs, memory)
        return _verdict(inputs, memory, settings, action=action, reason=reason, words=words)
    if obstacle is not None:
        reason, words = obstacle
        return _verdict(inputs, memory, settings, action=DecisionAction.HOLD, reason=reason, words=words)
    return _by_law(inputs, memory, settings)


def settle(state: ControllerState, actuations: Iterable[Actuation], *, now_s: float) -> ControllerState:
    """Return the state after the effects were carried out at `now_s`."""
    settled = {
        actuation.engine_id: holding.settle(state.engines[actuation.engine_id], actuation, now_s=now_s)
        for actuation in actuations
        if actuation.engine_id in state.engines
    }
    return ControllerState(engines={**state.engines, **settled})


def resume(memories: Mapping[str, EngineMemory], *, now_s: float) -> ControllerState:
    """Return the first state of a controller that takes over memories of an earlier one: targets are sent again, and a
    cooldown passes before the law is asked, because times of the earlier run mean nothing here."""
    return ControllerState(
        engines={
            engine_id: replace(memory, held=None, changed_at_s=now_s, growth_p99_ms=None, fenced=False, seen_at_s=now_s)
            for engine_id, memory in memories.items()
        }
    )


def _inputs(state: ControllerState, tick: Tick, reading: EngineReading, settings: StepSettings) -> EngineInputs:
    return EngineInputs(
        now_s=tick.now_s,
        wall_s=tick.wall_s,
        paused=tick.paused,
        override=tick.overrides.get(reading.engine_id),
        reading=reading,
        memory=_recalled(state.engines.get(reading.engine_id), tick, reading, settings),
    )


def _recalled(memory: EngineMemory | None, tick: Tick, reading: EngineReading, settings: StepSettings) -> EngineMemory:
    """Return the memory for this epoch of the engine: a restarted engine keeps what the law learnt and gets it again."""
    if memory is None:
        return EngineMemory(epoch=reading.epoch, growth_factor=settings.law.growth_factor, seen_at_s=tick.now_s)
    if memory.epoch == reading.epoch:
        return replace(memory, seen_at_s=tick.now_s)
    return EngineMemory(
        epoch=reading.epoch,
        growth_factor=memory.growth_factor,
        target=memory.target.without(memory.displaced).clamped(reading.limits),
        changed_at_s=tick.now_s,
        override_id=memory.override_id,
        seen_at_s=tick.now_s,
    )


def _by_law(inputs: EngineInputs, memory: EngineMemory, settings: StepSettings) -> Verdict:
    limit = inputs.current.max_active_sequences
    if limit is None:
        raise ValueError(f"{inputs.reading.engine_id}: the law was asked without a limit in force")
    given = LawInput(
        reading=inputs.reading,
        limit=limit,
        growth_factor=memory.growth_factor,
        growth_p99_ms=memory.growth_p99_ms,
        slo_ms=settings.slo_ms,
    )
    proposal = propose(given, settings.law)
    action = orders.direction(inputs.current, Tuning(max_active_sequences=proposal.limit))
    learnt = _learnt(inputs, memory, proposal, action)
    return _verdict(inputs, learnt, settings, action=action, reason=proposal.reason, words=proposal.explanation)


def _learnt(inputs: EngineInputs, memory: EngineMemory, proposal: Proposal, action: DecisionAction) -> EngineMemory:
    judged = inputs.reading.judged
    if proposal.reason is DecisionReason.TOO_FEW_SAMPLES:
        return memory
    if action is DecisionAction.HOLD:
        return replace(memory, growth_factor=proposal.growth_factor, growth_p99_ms=None)
    return replace(
        memory,
        growth_factor=proposal.growth_factor,
        growth_p99_ms=judged.p99_ms if judged is not None and action is DecisionAction.GROW else None,
        target=Tuning(max_active_sequences=proposal.limit).over(memory.target),
        changed_at_s=inputs.now_s,
    )


def _verdict(
    inputs: EngineInputs,
    memory: EngineMemory,
    settings: StepSettings,
    *,
    action: DecisionAction,
    reason: DecisionReason,
    words: str,
) -> Verdict:
    judged = inputs.reading.judged
    decision = Decision(
        engine_id=inputs.reading.engine_id,
        action=action,
        reason=reason,
        explanation=words,
        before=inputs.current,
        after=memory.target.over(inputs.reading.tuning),
        p99_ms=None if judged is None else judged.p99_ms,
        slo_ms=settings.slo_ms,
        growth_factor=memory.growth_factor,
        override_id=memory.override_id if memory.override_id != inputs.memory.override_id else "",
    )
    return Verdict(inputs=inputs, memory=memory, decision=decision, effect=holding.due(inputs, memory, settings))


def _remembered(state: ControllerState, now_s: float) -> dict[str, EngineMemory]:
    return {name: memory for name, memory in state.engines.items() if now_s - memory.seen_at_s < FORGET_AFTER_S}
