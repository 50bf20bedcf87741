"""Generation requests, checked."""

from typing import Any

import pytest
from twinlane.common.v1 import lane_pb2
from twinlane.engine.v1 import engine_pb2

from libs.core.lanes import Lane
from libs.rpc.fault import FaultError
from services.engine.api.validate import RequestRules, check
from services.engine.domain import Limits, Sampling
from services.engine.serving.errors import PromptTooLongError

LIMITS = Limits(
    max_context_tokens=100, max_active_sequences=4, max_batched_tokens=64, block_size_tokens=16, kv_blocks=64, kv_cache_bytes=0
)
RULES = RequestRules(model="m", limits=LIMITS, vocabulary_size=1000)


def request(**fields: Any) -> engine_pb2.GenerateRequest:
    base: dict[str, Any] = {"request_id": "r", "model": "m", "token_ids": [1, 2, 3], "lane": lane_pb2.LANE_BATCH}
    return engine_pb2.GenerateRequest(**{**base, **fields})


def test_check_of_a_plain_request_fills_the_defaults_in() -> None:
    asked = check(request(), RULES)
    assert (asked.lane, asked.max_new_tokens, asked.sampling) == (Lane.BATCH, 97, Sampling())


def test_check_of_a_full_request_keeps_every_field() -> None:
    sampling = {"temperature": 0.5, "top_p": 0.25, "top_k": 7, "seed": 9}
    stopping = {"max_new_tokens": 5, "stop": ["x", "y"], "ignore_eos": True}
    asked = check(request(sampling=sampling, stopping=stopping, cache_salt="s", priority=-100), RULES)
    assert asked.sampling == Sampling(temperature=0.5, top_p=0.25, top_k=7, seed=9)
    assert (asked.max_new_tokens, asked.stop, asked.ignore_eos) == (5, ("x", "y"), True)
    assert (asked.cache_salt, asked.priority) == ("s", -100)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"request_id": ""}, "request_id", id="no name"),
        pytest.param({"request_id": "r" * 129}, "request_id", id="long name"),
        pytest.param({"model": ""}, "model", id="no model"),
        pytest.param({"model": "other"}, "model", id="other model"),
        pytest.param({"token_ids": []}, "token_ids", id="empty prompt"),
        pytest.param({"token_ids": [1000]}, "token_ids", id="token outside the vocabulary"),
        pytest.param({"lane": 0}, "lane", id="no lane"),
        pytest.param({"lane": 9}, "lane", id="unknown lane"),
        pytest.param({"priority": 101}, "priority", id="priority"),
        pytest.param({"cache_salt": "s" * 257}, "cache_salt", id="salt"),
        pytest.param({"sampling": {"temperature": 2.5}}, "sampling.temperature", id="hot"),
        pytest.param({"sampling": {"temperature": float("nan")}}, "sampling.temperature", id="no temperature"),
        pytest.param({"sampling": {"top_p": 0.0}}, "sampling.top_p", id="empty nucleus"),
        pytest.param({"stopping": {"max_new_tokens": 0}}, "stopping.max_new_tokens", id="no new tokens"),
        pytest.param({"stopping": {"max_new_tokens": 98}}, "stopping.max_new_tokens", id="over the room"),
        pytest.param({"stopping": {"stop": ["a"] * 17}}, "stopping.stop", id="stops"),
        pytest.param({"stopping": {"stop": ["a", ""]}}, "stopping.stop[1]", id="empty stop"),
    ],
)
def test_check_of_a_bad_field_names_it(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(FaultError) as caught:
        check(request(**fields), RULES)
    assert [violation.field for violation in caught.value.fault.violations] == [field]


def test_check_of_two_bad_fields_names_both() -> None:
    with pytest.raises(FaultError) as caught:
        check(request(request_id="", priority=-101), RULES)
    assert [violation.field for violation in caught.value.fault.violations] == ["request_id", "priority"]


@pytest.mark.parametrize(("prompt_tokens", "fits"), [pytest.param(99, True, id="99"), pytest.param(100, False, id="100")])
def test_check_of_a_prompt_at_the_context_length_leaves_room_for_one_token(prompt_tokens: int, fits: bool) -> None:
    asked = request(token_ids=[1] * prompt_tokens)
    if fits:
        assert check(asked, RULES).max_new_tokens == 1
    else:
        with pytest.raises(PromptTooLongError) as caught:
            check(asked, RULES)
        assert caught.value.limit_tokens == 99
