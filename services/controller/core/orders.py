"""Operators' overrides, carried out before any law is asked."""

from dataclasses import replace

from services.controller.core.inputs import EngineInputs, governed
from services.controller.core.memory import EngineMemory
from services.controller.core.settings import StepSettings
from services.controller.domain import DecisionAction, DecisionReason, Tuning


def carry_out(inputs: EngineInputs, settings: StepSettings) -> EngineMemory:
    """Return the memory whose target follows the override that holds now, or no longer follows one that ended.

    When an override ends, values that a law governs stay, and the law goes on from them. Others return to what the override
    displaced; where that is not known they are let go, and the engine returns to its configured value with its lease.
    """
    memory, wanted = inputs.memory, inputs.overridden
    untouched = inputs.reading.tuning.where(wanted).without(memory.target)
    displaced = memory.displaced.over(untouched)
    lawful = memory.target.where(governed(inputs.reading, settings.law))
    target = wanted.over(lawful.over(displaced))
    live = inputs.live_override
    override_id = memory.override_id if live is None else live.decision_id
    changed_at_s = memory.changed_at_s if target == memory.target else inputs.now_s
    return replace(memory, target=target, displaced=displaced, override_id=override_id, changed_at_s=changed_at_s)


def verdict_words(inputs: EngineInputs, memory: EngineMemory) -> tuple[DecisionAction, DecisionReason, str]:
    """Return action, reason and words for the change from `inputs.memory` to `memory` that `carry_out` made."""
    live = inputs.live_override
    if live is not None:
        return DecisionAction.OVERRIDE, DecisionReason.OVERRIDDEN, f"an operator's override holds: {live.reason}"
    words = "the override ended: the values before it return"
    return direction(inputs.current, memory.target), DecisionReason.OVERRIDDEN, words


def direction(before: Tuning, after: Tuning) -> DecisionAction:
    """Return whether the first value that differs, and is known on both sides, goes up or down; HOLD where none does."""
    for old, new in (
        (before.max_active_sequences, after.max_active_sequences),
        (before.max_batched_tokens, after.max_batched_tokens),
    ):
        if old is not None and new is not None and old != new:
            return DecisionAction.GROW if new > old else DecisionAction.SHRINK
    return DecisionAction.HOLD
