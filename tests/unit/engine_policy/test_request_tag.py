import math

import pytest

from libs.core.lanes import Lane
from services.engine.policy.request_tag import RequestTag, from_extra_args, to_extra_args


@pytest.mark.parametrize(
    "tag",
    [
        pytest.param(RequestTag(lane=Lane.REALTIME, deadline_s=12.5, hot=True), id="realtime"),
        pytest.param(RequestTag(lane=Lane.AUTO), id="no deadline"),
        pytest.param(RequestTag(lane=Lane.BATCH, bypass_prefix_cache=True), id="bypass"),
    ],
)
def test_tag_read_back_is_the_tag(tag: RequestTag) -> None:
    assert from_extra_args(to_extra_args(tag)) == tag


@pytest.mark.parametrize("extra_args", [None, {}, {"kv_transfer_params": {}}])
def test_request_without_a_tag_is_batch_without_deadline(extra_args: dict[str, object] | None) -> None:
    tag = from_extra_args(extra_args)

    assert (tag.lane, tag.deadline_s, tag.hot, tag.bypass_prefix_cache) == (Lane.BATCH, math.inf, False, False)
