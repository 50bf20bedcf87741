"""Calls through the router, and the ends that they come to."""

from dataclasses import dataclass

import grpc
from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc

from bench.mesh import Mesh, connect, eventually
from libs.rpc.fault import Fault, read_fault

CALL_LIMIT_S = 30.0
RECOVERY_LIMIT_S = 30.0
FINISHED = "FINISHED"


@dataclass(frozen=True, kw_only=True)
class End:
    """How a stream ended: FINISHED or the reason of its fault, and how many tokens came before."""

    reason: str
    tokens: int


def long_request(tokens: int) -> inference_pb2.GenerateRequest:
    return inference_pb2.GenerateRequest(
        prompt="Tell me a long story.",
        lane=lane_pb2.LANE_REALTIME,
        stopping=generation_pb2.Stopping(max_new_tokens=tokens, ignore_eos=True),
    )


async def read_to_end(
    channel: grpc.aio.Channel, request: inference_pb2.GenerateRequest, *, limit_s: float = CALL_LIMIT_S
) -> End:
    """Read a stream to its end, whatever that is; a stream that hangs ends as DEADLINE_EXCEEDED."""
    tokens, finished = 0, False
    try:
        async for response in inference_pb2_grpc.InferenceServiceStub(channel).Generate(request, timeout=limit_s):
            tokens += len(response.delta.token_ids)
            finished = finished or response.HasField("finished")
    except grpc.aio.AioRpcError as error:
        return End(reason=read_fault(error).reason, tokens=tokens)
    return End(reason=FINISHED if finished else "CUT_SHORT", tokens=tokens)


async def complete(channel: grpc.aio.Channel) -> inference_pb2.CompleteResponse:
    """Ask for a short realtime answer. Raises AioRpcError."""
    request = inference_pb2.CompleteRequest(
        prompt="Hello", lane=lane_pb2.LANE_REALTIME, stopping=generation_pb2.Stopping(max_new_tokens=2)
    )
    return await inference_pb2_grpc.InferenceServiceStub(channel).Complete(request, timeout=CALL_LIMIT_S)


async def wait_answering(mesh: Mesh, *, limit_s: float = RECOVERY_LIMIT_S) -> None:
    """Return when the mesh answers a realtime call on its realtime engine."""
    async with connect(mesh.router) as channel:
        await eventually(lambda: complete(channel), lambda answer: answer.engine_id == "realtime-1", limit_s=limit_s)


async def refusal(channel: grpc.aio.Channel, raw: bytes) -> Fault:
    """Send the bytes as a CompleteRequest and return the fault that comes back."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        "/twinlane.inference.v1.InferenceService/Complete"
    )
    try:
        await call(raw, timeout=CALL_LIMIT_S)
    except grpc.aio.AioRpcError as error:
        return read_fault(error)
    raise AssertionError("the request was answered")
