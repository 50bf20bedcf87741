"""What keeps the law from being asked at all. The first guard that applies gives the reason."""

from services.controller.core.inputs import EngineInputs, governed
from services.controller.core.settings import StepSettings
from services.controller.domain import DecisionReason, EngineState

Obstacle = tuple[DecisionReason, str]


def guard(inputs: EngineInputs, settings: StepSettings) -> Obstacle | None:
    """Return why nothing may be changed now, or None where the law may be asked."""
    return _trust_guard(inputs, settings) or _operator_guard(inputs) or _law_guard(inputs, settings)


def _trust_guard(inputs: EngineInputs, settings: StepSettings) -> Obstacle | None:
    age_s = inputs.reading.age_s
    if inputs.memory.fenced:
        return DecisionReason.FENCED, "the engine follows a controller of a newer term"
    if inputs.reading.state is not EngineState.SERVING:
        return DecisionReason.ENGINE_NOT_SERVING, f"the engine is {inputs.reading.state.name}"
    if age_s is None:
        return DecisionReason.TELEMETRY_STALE, "no telemetry yet"
    if age_s > settings.stale_s:
        return DecisionReason.TELEMETRY_STALE, f"telemetry is older than {settings.stale_s:.1f} s"
    return None


def _operator_guard(inputs: EngineInputs) -> Obstacle | None:
    live = inputs.live_override
    if live is not None and live.tuning.max_active_sequences is not None:
        return DecisionReason.OVERRIDDEN, f"an operator's override holds: {live.reason}"
    if inputs.paused:
        return DecisionReason.PAUSED, "the controller is paused"
    return None


def _law_guard(inputs: EngineInputs, settings: StepSettings) -> Obstacle | None:
    if governed(inputs.reading, settings.law).is_empty:
        return DecisionReason.STEADY, f"no law governs pool {inputs.reading.pool!r}"
    if inputs.current.max_active_sequences is None:
        return DecisionReason.TELEMETRY_STALE, "the engine does not report its tuning"
    if _is_cooling(inputs, settings.law.cooldown_s):
        return DecisionReason.COOLDOWN, f"changed less than {settings.law.cooldown_s:.1f} s ago"
    return None


def _is_cooling(inputs: EngineInputs, cooldown_s: float) -> bool:
    changed_at_s = inputs.memory.changed_at_s
    return changed_at_s is not None and inputs.now_s - changed_at_s < cooldown_s
