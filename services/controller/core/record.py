"""A decision with its name, its outcome and everything it was taken from: one row of the journal."""

from dataclasses import dataclass

from services.controller.core.decision import Decision
from services.controller.core.inputs import EngineInputs
from services.controller.domain import ActuationResult, DecisionAction


@dataclass(frozen=True, kw_only=True)
class DecisionRecord:
    """One decision. `decide(inputs, settings of the term)` gives `decision` again."""

    decision_id: str
    term: int
    decided_at_s: float
    decision: Decision
    result: ActuationResult
    error: str
    inputs: EngineInputs

    @property
    def is_change(self) -> bool:
        """Whether something was changed, or tried to be."""
        return self.decision.action is not DecisionAction.HOLD or self.result is not ActuationResult.NONE


def is_noteworthy(record: DecisionRecord, before: DecisionRecord | None) -> bool:
    """Whether a record adds to what the one before it about the same engine says: every change does, a hold only when its
    reason is new or an actuation began or ceased to fail."""
    if before is None or record.decision.action is not DecisionAction.HOLD or record.result is ActuationResult.APPLIED:
        return True
    return record.decision.reason is not before.decision.reason or bool(record.error) != bool(before.error)
