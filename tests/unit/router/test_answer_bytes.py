"""The router's fields behind an engine's bytes give the message that callers expect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.engine.v1 import engine_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.lanes import Lane
from services.router.flow.answer_bytes import (
    EventTag,
    SentDeltas,
    with_complete_fields,
    with_finished_fields,
    with_started_fields,
)


@given(model=st.text(max_size=300), prompt_tokens=st.integers(0, 2**32 - 1))
def test_started_gets_the_routers_fields_and_keeps_the_engines(model: str, prompt_tokens: int) -> None:
    started = engine_pb2.Started(request_id="call-1", model=model, engine_id="e", prompt_tokens=prompt_tokens)
    raw = engine_pb2.GenerateResponse(started=started).SerializeToString()

    seen = inference_pb2.GenerateResponse.FromString(with_started_fields(raw, request_id="mine", lane=Lane.BATCH, queue_ms=1.5))

    assert raw[0] == EventTag.STARTED
    assert seen.started == inference_pb2.Started(
        request_id="mine",
        model=model,
        engine_id="e",
        prompt_tokens=prompt_tokens,
        lane=lane_pb2.LANE_BATCH,
        router_queue_ms=1.5,
    )


def test_finished_gets_the_routers_fields_and_keeps_the_engines() -> None:
    finished = engine_pb2.Finished(
        finish_reason=generation_pb2.FINISH_REASON_STOP,
        usage=generation_pb2.Usage(prompt_tokens=7),
        timings=generation_pb2.Timings(engine_total_ms=9.0),
    )
    raw = engine_pb2.GenerateResponse(finished=finished).SerializeToString()

    seen = inference_pb2.GenerateResponse.FromString(with_finished_fields(raw, attempts=2, queue_ms=1.0, total_ms=10.0))

    assert raw[0] == EventTag.FINISHED
    assert seen.finished.attempts == 2
    assert seen.finished.usage.prompt_tokens == 7
    assert seen.finished.timings == generation_pb2.Timings(router_queue_ms=1.0, router_total_ms=10.0, engine_total_ms=9.0)


def test_complete_answer_gets_the_routers_fields_and_keeps_the_engines() -> None:
    raw = engine_pb2.CompleteResponse(
        request_id="call-1", text="Paris", token_ids=[1, 2], timings=generation_pb2.Timings(engine_total_ms=9.0)
    ).SerializeToString()

    seen = inference_pb2.CompleteResponse.FromString(
        with_complete_fields(raw, request_id="mine", lane=Lane.REALTIME, attempts=1, queue_ms=1.0, total_ms=10.0)
    )

    assert (seen.request_id, seen.text, list(seen.token_ids)) == ("mine", "Paris", [1, 2])
    assert (seen.lane, seen.attempts) == (lane_pb2.LANE_REALTIME, 1)
    assert seen.timings == generation_pb2.Timings(router_queue_ms=1.0, router_total_ms=10.0, engine_total_ms=9.0)


@pytest.mark.parametrize("repeats", [1, 500])
def test_tokens_of_a_broken_answer_are_counted(repeats: int) -> None:
    deltas = [
        engine_pb2.GenerateResponse(delta=engine_pb2.Delta(text="a", token_ids=ids)).SerializeToString()
        for ids in ([1, 200_000], [], [3])
    ]

    sent = SentDeltas()
    for raw in deltas * repeats:
        sent.add(raw)

    assert all(raw[0] == EventTag.DELTA for raw in deltas)
    assert sent.tokens() == 3 * repeats
    assert sent.tokens() == 3 * repeats
