"""The lane rule (R1)."""

from dataclasses import dataclass

from libs.core.lanes import Lane
from services.router.domain import Identity, LaneDecision, LaneReason

# R1: prompts over this are batch work unless the caller says otherwise.
DEFAULT_BATCH_PROMPT_TOKENS = 2_000


@dataclass(frozen=True, kw_only=True)
class LaneRule:
    """Prompts of more than `batch_prompt_tokens` tokens go to the batch lane."""

    batch_prompt_tokens: int = DEFAULT_BATCH_PROMPT_TOKENS


def decide_lane(rule: LaneRule, *, asked: Lane | None, identity: Identity, prompt_tokens: int) -> LaneDecision:
    """Return the lane: the request's own field, else x-request-type, else the rule."""
    if asked is not None:
        return LaneDecision(asked, LaneReason.LANE_FIELD)
    if identity.request_type is not None:
        return LaneDecision(identity.request_type, LaneReason.REQUEST_TYPE)
    if prompt_tokens > rule.batch_prompt_tokens:
        return LaneDecision(Lane.BATCH, LaneReason.LONG_PROMPT)
    if identity.low_priority:
        return LaneDecision(Lane.BATCH, LaneReason.LOW_PRIORITY)
    if identity.low_latency:
        return LaneDecision(Lane.REALTIME, LaneReason.LOW_LATENCY)
    return LaneDecision(Lane.AUTO, LaneReason.DEFAULT)
