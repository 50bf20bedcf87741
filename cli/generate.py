"""`twinlane generate`: one answer, streamed to the terminal."""

import sys
from enum import StrEnum
from typing import Annotated

import grpc
import typer
from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc

from cli.calls import DEFAULT_ROUTER, call

# Long enough for a full-length answer on a laptop's CPU.
_DEFAULT_TIMEOUT_S = 300.0
_DEFAULT_MAX_NEW_TOKENS = 128


class LaneChoice(StrEnum):
    """Lanes as the command line names them; `rule` leaves the choice to the router's lane rule."""

    RULE = "rule"
    REALTIME = "realtime"
    BATCH = "batch"
    AUTO = "auto"


_LANES = {
    LaneChoice.RULE: lane_pb2.LANE_UNSPECIFIED,
    LaneChoice.REALTIME: lane_pb2.LANE_REALTIME,
    LaneChoice.BATCH: lane_pb2.LANE_BATCH,
    LaneChoice.AUTO: lane_pb2.LANE_AUTO,
}


def build_request(*, text: str, chat: bool, lane: LaneChoice, max_new_tokens: int, model: str) -> inference_pb2.GenerateRequest:
    """Return the request for a text: continued as it stands, or answered as a user's message."""
    request = inference_pb2.GenerateRequest(
        model=model, lane=_LANES[lane], stopping=generation_pb2.Stopping(max_new_tokens=max_new_tokens)
    )
    if chat:
        request.chat.messages.add(role="user", content=text)
    else:
        request.prompt = text
    return request


def closing_line(started: inference_pb2.Started, finished: inference_pb2.Finished) -> str:
    """Return usage and timings in one line."""
    usage, timings = finished.usage, finished.timings
    return (
        f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached), {usage.completion_tokens} generated, "
        f"{generation_pb2.FinishReason.Name(finished.finish_reason).removeprefix('FINISH_REASON_').lower()}; "
        f"first token {timings.engine_first_token_ms:.0f} ms, total {timings.router_total_ms:.0f} ms; "
        f"{lane_pb2.Lane.Name(started.lane).removeprefix('LANE_').lower()} on {started.engine_id}"
    )


async def stream_answer(channel: grpc.aio.Channel, request: inference_pb2.GenerateRequest, timeout_s: float) -> str:
    """Write the answer to stdout as it comes and return the closing line."""
    started, finished = inference_pb2.Started(), inference_pb2.Finished()
    async for response in inference_pb2_grpc.InferenceServiceStub(channel).Generate(request, timeout=timeout_s):
        started.MergeFrom(response.started)
        finished.MergeFrom(response.finished)
        typer.echo(response.delta.text, nl=False)
    typer.echo()
    return closing_line(started, finished)


def generate(
    prompt: Annotated[str, typer.Argument(help='The prompt; "-" reads it from standard input.')],
    chat: Annotated[bool, typer.Option("--chat", help="Send it as a user's message through the chat template.")] = False,
    lane: Annotated[LaneChoice, typer.Option(help="Lane to ask for.")] = LaneChoice.RULE,
    max_new_tokens: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = _DEFAULT_MAX_NEW_TOKENS,
    model: Annotated[str, typer.Option(help="Model name; the mesh's only model where empty.")] = "",
    timeout_s: Annotated[float, typer.Option(min=0.001, help="Deadline of the whole answer.")] = _DEFAULT_TIMEOUT_S,
    address: Annotated[str, typer.Option(help="host:port of a router.")] = DEFAULT_ROUTER,
) -> None:
    """Generate text; it streams to the terminal, then usage and timings follow on stderr."""
    text = sys.stdin.read() if prompt == "-" else prompt
    request = build_request(text=text, chat=chat, lane=lane, max_new_tokens=max_new_tokens, model=model)
    typer.echo(call(address, lambda channel: stream_answer(channel, request, timeout_s)), err=True)
