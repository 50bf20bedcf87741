"""What is refused before an engine is asked, and in which words."""

import math

import pytest
from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.lanes import Lane
from libs.rpc.fault import FaultError
from services.router.flow.checks import Request, RequestRules, check_call, check_request
from services.router.flow.engine_request import bound_salt
from services.router.flow.identity import read_identity, to_mapping

RULES = RequestRules(model="m", vocabulary_size=100)


def request(**fields: object) -> inference_pb2.CompleteRequest:
    return inference_pb2.CompleteRequest(**{"prompt": "hello", **fields})  # type: ignore[arg-type]


def chat(*turns: tuple[str, str]) -> inference_pb2.CompleteRequest:
    messages = [inference_pb2.ChatMessage(role=role, content=content) for role, content in turns]
    return inference_pb2.CompleteRequest(chat=inference_pb2.Chat(messages=messages))


@pytest.mark.parametrize(
    ("bad", "reason", "field"),
    [
        pytest.param(inference_pb2.CompleteRequest(), "EMPTY_PROMPT", "input", id="no-input"),
        pytest.param(inference_pb2.CompleteRequest(prompt=""), "EMPTY_PROMPT", "prompt", id="empty-prompt"),
        pytest.param(
            inference_pb2.CompleteRequest(token_ids=generation_pb2.TokenIds()), "EMPTY_PROMPT", "token_ids.ids", id="no-tokens"
        ),
        pytest.param(
            inference_pb2.CompleteRequest(token_ids=generation_pb2.TokenIds(ids=[5, 100])),
            "INVALID_FIELD",
            "token_ids.ids",
            id="token-outside-the-vocabulary",
        ),
        pytest.param(chat(), "EMPTY_PROMPT", "chat.messages", id="empty-chat"),
        pytest.param(chat(("user", "")), "EMPTY_PROMPT", "chat.messages", id="chat-without-content"),
        pytest.param(chat(("user", "x"), ("robot", "y")), "INVALID_FIELD", "chat.messages[1].role", id="unknown-role"),
        pytest.param(request(model="other"), "UNKNOWN_MODEL", "model", id="unknown-model"),
        pytest.param(request(request_id="x" * 129), "INVALID_FIELD", "request_id", id="long-request-id"),
        pytest.param(request(request_id="a\nb"), "INVALID_FIELD", "request_id", id="unprintable-request-id"),
        pytest.param(
            request(stopping=generation_pb2.Stopping(max_new_tokens=0)),
            "INVALID_FIELD",
            "stopping.max_new_tokens",
            id="no-new-tokens",
        ),
        pytest.param(
            request(stopping=generation_pb2.Stopping(max_new_tokens=2**32 - 1)),
            "INVALID_FIELD",
            "stopping.max_new_tokens",
            id="minus-one-through-an-unsigned-field",
        ),
        pytest.param(
            request(stopping=generation_pb2.Stopping(stop=["a", ""])), "INVALID_FIELD", "stopping.stop[1]", id="empty-stop"
        ),
        pytest.param(
            request(stopping=generation_pb2.Stopping(stop=["a"] * 17)), "INVALID_FIELD", "stopping.stop", id="many-stops"
        ),
        pytest.param(
            request(sampling=generation_pb2.Sampling(temperature=2.1)), "INVALID_FIELD", "sampling.temperature", id="hot"
        ),
        pytest.param(
            request(sampling=generation_pb2.Sampling(temperature=math.nan)), "INVALID_FIELD", "sampling.temperature", id="nan"
        ),
        pytest.param(request(sampling=generation_pb2.Sampling(top_p=0)), "INVALID_FIELD", "sampling.top_p", id="no-mass"),
        pytest.param(request(priority=-101), "INVALID_FIELD", "priority", id="priority"),
        pytest.param(request(lane=9), "INVALID_FIELD", "lane", id="lane"),
        pytest.param(
            request(kv=generation_pb2.KvOptions(cache_salt="x" * 129)), "INVALID_FIELD", "kv.cache_salt", id="long-salt"
        ),
    ],
)
def test_bad_request_is_refused_with_its_field(bad: Request, reason: str, field: str) -> None:
    with pytest.raises(FaultError) as caught:
        check_request(bad, RULES)

    assert caught.value.fault.reason == reason
    assert [violation.field for violation in caught.value.fault.violations] == [field]


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(FaultError) as caught:
        check_request(request(model="other", priority=101, lane=7), RULES)

    assert [violation.field for violation in caught.value.fault.violations] == ["model", "lane", "priority"]


def test_faults_of_metadata_and_message_are_reported_together() -> None:
    with pytest.raises(FaultError) as caught:
        check_call(request(priority=101), {"x-priority": "urgent"}, RULES)

    assert [violation.field for violation in caught.value.fault.violations] == ["metadata.x-priority", "priority"]


def test_good_call_gives_who_calls_and_the_lane() -> None:
    identity, lane = check_call(request(lane=2), {"x-tenant": "acme"}, RULES)

    assert (identity.tenant, lane) == ("acme", Lane.BATCH)


def test_good_request_gives_the_lane_it_names() -> None:
    assert check_request(request(), RULES) is None
    assert check_request(request(lane=2, model="m"), RULES) is Lane.BATCH


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({"x-request-type": "sometimes"}, "metadata.x-request-type", id="request-type"),
        pytest.param({"x-priority": "urgent"}, "metadata.x-priority", id="priority"),
        pytest.param({"x-require-low-latency": "maybe"}, "metadata.x-require-low-latency", id="low-latency"),
        pytest.param({"x-tenant": ""}, "metadata.x-tenant", id="empty-tenant"),
        pytest.param({"x-tenant": "x" * 129}, "metadata.x-tenant", id="long-tenant"),
    ],
)
def test_bad_metadata_is_refused_with_its_key(metadata: dict[str, str], field: str) -> None:
    with pytest.raises(FaultError) as caught:
        read_identity(metadata)

    assert [violation.field for violation in caught.value.fault.violations] == [field]


def test_metadata_is_read() -> None:
    given = (("x-tenant", "acme"), ("x-request-type", "Batch"), ("x-priority", "low"), ("trace-bin", b"\x00"))

    identity = read_identity(to_mapping(given))

    assert (identity.tenant, identity.request_type, identity.low_priority, identity.low_latency) == (
        "acme",
        Lane.BATCH,
        True,
        False,
    )


def test_cache_salts_of_two_tenants_never_meet() -> None:
    assert bound_salt("a", "bc") != bound_salt("ab", "c")
    assert bound_salt("a", "") != bound_salt("b", "")
    assert bound_salt("a", "x") == bound_salt("a", "x")
    assert bound_salt("1:a", "") != bound_salt("1", "a:")
