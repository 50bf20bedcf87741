"""Requests and the closing line of `twinlane generate`."""

from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2

from cli.generate import LaneChoice, build_request, closing_line


def test_build_request_plain_text_is_the_prompt() -> None:
    request = build_request(text="Once", chat=False, lane=LaneChoice.BATCH, max_new_tokens=9, model="")
    assert (request.prompt, request.lane, request.stopping.max_new_tokens) == ("Once", lane_pb2.LANE_BATCH, 9)


def test_build_request_chat_is_a_users_message() -> None:
    request = build_request(text="Hi", chat=True, lane=LaneChoice.RULE, max_new_tokens=9, model="m")
    assert [(turn.role, turn.content) for turn in request.chat.messages] == [("user", "Hi")]
    assert (request.model, request.lane) == ("m", lane_pb2.LANE_UNSPECIFIED)


def test_closing_line_tells_usage_timings_and_place() -> None:
    line = closing_line(
        inference_pb2.Started(engine_id="realtime-1", lane=lane_pb2.LANE_REALTIME),
        inference_pb2.Finished(
            finish_reason=generation_pb2.FINISH_REASON_LENGTH,
            usage=generation_pb2.Usage(prompt_tokens=5, cached_tokens=2, completion_tokens=7),
            timings=generation_pb2.Timings(engine_first_token_ms=12.4, router_total_ms=99.6),
        ),
    )
    assert line == ("5 prompt tokens (2 cached), 7 generated, length; first token 12 ms, total 100 ms; realtime on realtime-1")
