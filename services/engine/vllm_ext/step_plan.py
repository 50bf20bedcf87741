"""One step: what each class may still use while it is put together, and what it turned out to hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from services.engine.policy.step_budget import StepBudget, chunk
from services.engine.policy.step_time import StepWork, chunk_pairs
from services.engine.vllm_ext.tracked_request import TrackedRequest


@dataclass(slots=True, kw_only=True)
class StepPlan:
    """Budgets of the step being scheduled; `shield_hot`: there are hot blocks to be kept from batch."""

    budget: StepBudget
    chunk_tokens: int
    realtime_left: int
    batch_left: int
    shield_hot: bool = False

    def take(self, *, realtime: bool, wanted_tokens: int) -> int:
        """Return the prompt tokens that a request gets, and count them against its class."""
        if realtime:
            granted = max(min(wanted_tokens, self.realtime_left), 0)
            self.realtime_left -= granted
        else:
            granted = chunk(wanted_tokens=wanted_tokens, left_tokens=self.batch_left, chunk_tokens=self.chunk_tokens)
            self.batch_left -= granted
        return granted


class StepRecord(NamedTuple):
    """A step on its way through the model: its work, when it was handed over, and the tokens of each class."""

    work: StepWork
    started_s: float
    realtime_tokens: int
    batch_tokens: int


class Scheduled(NamedTuple):
    """What a step holds. `beginning`: (request id, computed tokens before) of those that start, or start again."""

    work: StepWork
    realtime_tokens: int
    batch_tokens: int
    batch_prefill_tokens: int
    beginning: tuple[tuple[str, int], ...]


def account(scheduled: Mapping[str, int], requests: Mapping[str, Any], tracked: Mapping[str, TrackedRequest]) -> Scheduled:
    """Add up what vLLM scheduled; it has advanced the requests' computed tokens by it already. One token is a decode."""
    prefill = decodes = context = pairs = realtime = batch = batch_prefill = 0
    beginning = []
    for request_id, tokens in scheduled.items():
        computed = requests[request_id].num_computed_tokens - tokens
        of = tracked[request_id]
        if of.cached_tokens is None or of.lost_tokens is not None:
            beginning.append((request_id, computed))
        if tokens == 1:
            decodes += 1
            context += computed
        else:
            prefill += tokens
            pairs += chunk_pairs(tokens=tokens, computed_tokens=computed)
            if not of.realtime:
                batch_prefill += tokens
        if of.realtime:
            realtime += tokens
        else:
            batch += tokens
    return Scheduled(StepWork(prefill, decodes, context, pairs), realtime, batch, batch_prefill, tuple(beginning))
