"""One step while it is being put together: what each class may still use, and what was asked of the model."""

from dataclasses import dataclass, field

from services.engine.policy.step_budget import StepBudget, chunk
from services.engine.policy.step_time import StepWork, chunk_pairs


@dataclass(slots=True, kw_only=True)
class StepPlan:
    """Budgets of the step being scheduled; `chunks` has (computed tokens, tokens) of each request as last offered."""

    budget: StepBudget
    chunk_tokens: int
    realtime_left: int
    batch_left: int
    chunks: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, *, realtime: bool, wanted_tokens: int) -> int:
        """Return the prompt tokens that a request gets, and count them against its class."""
        if realtime:
            granted = max(min(wanted_tokens, self.realtime_left), 0)
            self.realtime_left -= granted
        else:
            granted = chunk(wanted_tokens=wanted_tokens, left_tokens=self.batch_left, chunk_tokens=self.chunk_tokens)
            self.batch_left -= granted
        return granted


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step on its way through the model: its work, when it was handed over, and the tokens of each class."""

    work: StepWork
    started_s: float
    realtime_tokens: int
    batch_tokens: int


def work_of(chunks: dict[str, tuple[int, int]], scheduled: dict[str, int]) -> StepWork:
    """Return the work of a step from what vLLM scheduled; `chunks` tells what each request had computed before."""
    prefill = decodes = context = pairs = 0
    for request_id, tokens in scheduled.items():
        computed = chunks[request_id][0]
        if tokens == 1:
            decodes += 1
            context += computed
        else:
            prefill += tokens
            pairs += chunk_pairs(tokens=tokens, computed_tokens=computed)
    return StepWork(prefill_tokens=prefill, decodes=decodes, context_tokens=context, attended_pairs=pairs)
