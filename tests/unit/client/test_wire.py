import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2

from libs.client.events import ChatMessage, Delta, Finished, FinishReason, RequestOptions, Started, TokenIds
from libs.client.wire import to_completion, to_event, to_metadata, to_request
from libs.core.lanes import Lane


def test_request_of_text_leaves_unset_options_absent() -> None:
    request = to_request(inference_pb2.GenerateRequest, "hello", RequestOptions())
    assert request.prompt == "hello"
    assert not request.sampling.HasField("temperature")
    assert not request.stopping.HasField("max_new_tokens")
    assert request.lane == lane_pb2.LANE_UNSPECIFIED


def test_request_carries_every_option() -> None:
    options = RequestOptions(
        request_id="r",
        model="m",
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        seed=2**64 - 1,
        max_new_tokens=7,
        stop=("a", "b"),
        ignore_eos=True,
        cache_salt="s",
        lane=Lane.BATCH,
        priority=-5,
    )
    assert to_request(inference_pb2.CompleteRequest, TokenIds([1, 2]), options) == inference_pb2.CompleteRequest(
        request_id="r",
        model="m",
        token_ids=generation_pb2.TokenIds(ids=[1, 2]),
        sampling=generation_pb2.Sampling(temperature=0.5, top_p=0.9, top_k=3, seed=2**64 - 1),
        stopping=generation_pb2.Stopping(max_new_tokens=7, stop=["a", "b"], ignore_eos=True),
        kv=generation_pb2.KvOptions(cache_salt="s"),
        lane=lane_pb2.LANE_BATCH,
        priority=-5,
    )


def test_request_of_messages_becomes_a_chat() -> None:
    messages = [ChatMessage(role="system", content="be brief"), ChatMessage(role="user", content="hi")]
    request = to_request(inference_pb2.GenerateRequest, messages, RequestOptions())
    assert [(message.role, message.content) for message in request.chat.messages] == [("system", "be brief"), ("user", "hi")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_new_tokens", -1), ("max_new_tokens", 2**32), ("top_k", -1), ("seed", 2**64), ("deadline_s", 0.0)],
)
def test_options_that_do_not_fit_the_wire_name_the_option(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        RequestOptions(**{name: value})  # type: ignore[arg-type]  # one table for several types


def test_metadata_has_the_tenant_and_the_callers_own() -> None:
    options = RequestOptions(tenant="bank", metadata={"x-priority": "low"})
    assert dict(to_metadata(options)) == {"x-tenant": "bank", "x-priority": "low"}


def test_metadata_inside_a_span_has_its_trace_context() -> None:
    span = NonRecordingSpan(SpanContext(trace_id=0xA, span_id=0xB, is_remote=False, trace_flags=TraceFlags(1)))
    with trace.use_span(span):
        metadata = dict(to_metadata(RequestOptions()))
    assert metadata["traceparent"] == f"00-{0xA:032x}-{0xB:016x}-01"


def test_event_of_each_kind_is_read() -> None:
    started = inference_pb2.Started(request_id="r", engine_id="e", prompt_tokens=3, lane=lane_pb2.LANE_REALTIME)
    event = to_event(inference_pb2.GenerateResponse(started=started), retries=0)
    assert isinstance(event, Started)
    assert (event.request_id, event.engine_id, event.prompt_tokens, event.lane) == ("r", "e", 3, Lane.REALTIME)
    delta = inference_pb2.GenerateResponse(delta=inference_pb2.Delta(text="x", token_ids=[4]))
    assert to_event(delta, retries=0) == Delta(text="x", token_ids=(4,))
    finished = inference_pb2.Finished(finish_reason=generation_pb2.FINISH_REASON_LENGTH, attempts=2)
    event = to_event(inference_pb2.GenerateResponse(finished=finished), retries=1)
    assert isinstance(event, Finished)
    assert (event.finish_reason, event.attempts, event.retries) == (FinishReason.LENGTH, 2, 1)
    assert event.timings.router_total_ms is None


def test_event_of_an_unknown_kind_is_left_out() -> None:
    assert to_event(inference_pb2.GenerateResponse(), retries=0) is None


def test_completion_with_values_of_a_newer_server_is_still_read() -> None:
    response = inference_pb2.CompleteResponse.FromString(bytes([0x30, 99, 0x48, 98]))
    completion = to_completion(response, retries=0)
    assert completion.finish_reason is FinishReason.UNSPECIFIED
    assert completion.lane is None
