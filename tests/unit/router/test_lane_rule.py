"""R1, one case a line."""

import pytest

from libs.core.lanes import Lane
from services.router.domain import Identity, LaneReason
from services.router.policy.lane_rule import LaneRule, decide_lane


def identity(*, request_type: Lane | None = None, low_priority: bool = False, low_latency: bool = False) -> Identity:
    return Identity(tenant="t", request_type=request_type, low_priority=low_priority, low_latency=low_latency)


@pytest.mark.parametrize(
    ("asked", "who", "prompt_tokens", "lane", "reason"),
    [
        pytest.param(None, identity(), 2000, Lane.AUTO, LaneReason.DEFAULT, id="nothing-said"),
        pytest.param(None, identity(), 2001, Lane.BATCH, LaneReason.LONG_PROMPT, id="over-2000-tokens"),
        pytest.param(None, identity(low_priority=True), 10, Lane.BATCH, LaneReason.LOW_PRIORITY, id="low-priority"),
        pytest.param(None, identity(low_latency=True), 10, Lane.REALTIME, LaneReason.LOW_LATENCY, id="low-latency"),
        pytest.param(
            None, identity(low_latency=True), 2001, Lane.BATCH, LaneReason.LONG_PROMPT, id="long-prompt-beats-low-latency"
        ),
        pytest.param(
            None,
            identity(low_priority=True, low_latency=True),
            10,
            Lane.BATCH,
            LaneReason.LOW_PRIORITY,
            id="low-priority-beats-low-latency",
        ),
        pytest.param(
            None, identity(request_type=Lane.REALTIME), 9000, Lane.REALTIME, LaneReason.REQUEST_TYPE, id="type-beats-the-rule"
        ),
        pytest.param(
            Lane.BATCH, identity(request_type=Lane.REALTIME), 10, Lane.BATCH, LaneReason.LANE_FIELD, id="field-beats-type"
        ),
    ],
)
def test_lane_follows_the_order_of_precedence(
    asked: Lane | None, who: Identity, prompt_tokens: int, lane: Lane, reason: LaneReason
) -> None:
    decision = decide_lane(LaneRule(), asked=asked, identity=who, prompt_tokens=prompt_tokens)

    assert decision == (lane, reason)
