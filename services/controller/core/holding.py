"""When tuning is sent to an engine: on a change, when the engine lost it, and to renew its lease."""

from dataclasses import replace

from services.controller.core.decision import Actuation, SendTuning
from services.controller.core.inputs import EngineInputs
from services.controller.core.memory import EngineMemory, Held
from services.controller.core.readings import EngineReading
from services.controller.core.settings import StepSettings
from services.controller.domain import EngineState

# Before it serves, an engine has no steps at which to apply anything; when stalled, neither.
_REACHABLE = frozenset({EngineState.SERVING, EngineState.DRAINING})


def due(inputs: EngineInputs, memory: EngineMemory, settings: StepSettings) -> SendTuning | None:
    """Return the tuning to send now, or None. A pause lets only overrides and renewals of what is held already through."""
    if memory.fenced or memory.target.is_empty or inputs.reading.state not in _REACHABLE:
        return None
    changes = _differs(inputs, memory)
    if changes and inputs.paused and inputs.live_override is None:
        return None
    if changes or _is_ageing(memory.held, inputs.now_s, settings.renew_after_s):
        return SendTuning(engine_id=inputs.reading.engine_id, tuning=memory.target, is_renewal=not changes)
    return None


def settle(memory: EngineMemory, actuation: Actuation, *, now_s: float) -> EngineMemory:
    """Return the memory after an actuation: what the engine clamped becomes the target; a failure is due again next tick."""
    if actuation.fenced:
        return replace(memory, fenced=True)
    if actuation.error:
        return memory
    applied = actuation.applied.where(memory.target).over(memory.target)
    return replace(memory, target=applied, held=Held(tuning=applied, at_s=now_s))


def _differs(inputs: EngineInputs, memory: EngineMemory) -> bool:
    held = memory.held
    return held is None or held.tuning != memory.target or _was_lost(inputs.reading, held, inputs.now_s)


def _was_lost(reading: EngineReading, held: Held, now_s: float) -> bool:
    """Whether a reading from after the confirmation shows other values in force."""
    if reading.age_s is None or now_s - reading.age_s <= held.at_s:
        return False
    return reading.tuning.where(held.tuning).over(held.tuning) != held.tuning


def _is_ageing(held: Held | None, now_s: float, renew_after_s: float) -> bool:
    return held is not None and now_s - held.at_s >= renew_after_s
