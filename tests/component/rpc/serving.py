"""A service with one method of each arity and each style, for tests of the server itself."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc
from twinlane.inference.v1 import inference_pb2

from libs.rpc.boundary import Context, Translate
from libs.rpc.channel import open_channel
from libs.rpc.server import RpcServer, Service, start_server

SERVICE = "twinlane.test.Arities"
LIMIT_BYTES = 1000
CLIENT_LIMIT_BYTES = 1_000_000
TIMEOUT_S = 30

Request = inference_pb2.CompleteRequest
Response = inference_pb2.CompleteResponse
Behavior = Callable[[str, Context], Awaitable[str]]
Call = Callable[[grpc.aio.Channel, list[bytes]], Coroutine[Any, Any, list[str]]]


class Requests(Protocol):
    """What a handler of streamed requests gets."""

    def __aiter__(self) -> AsyncIterator[Any]: ...


def handlers(behavior: Behavior) -> grpc.GenericRpcHandler:
    """Serve `behavior` (prompt and context in, text out) in every arity; each streamed request is one call of it."""

    async def unary_unary(request: Any, context: Context) -> Any:
        return Response(text=await behavior(request.prompt, context))

    async def unary_generator(request: Any, context: Context) -> AsyncIterator[Any]:
        yield Response(text="first")
        yield Response(text=await behavior(request.prompt, context))

    async def unary_writer(request: Any, context: Context) -> None:
        await context.write(Response(text="first"))
        await context.write(Response(text=await behavior(request.prompt, context)))

    async def stream_unary(requests: Requests, context: Context) -> Any:
        return Response(text="|".join([await behavior(request.prompt, context) async for request in requests]))

    async def stream_generator(requests: Requests, context: Context) -> AsyncIterator[Any]:
        async for request in requests:
            yield Response(text=await behavior(request.prompt, context))

    async def stream_writer(requests: Requests, context: Context) -> None:
        async for request in requests:
            await context.write(Response(text=await behavior(request.prompt, context)))

    coding: dict[str, Any] = {
        "request_deserializer": Request.FromString,
        "response_serializer": Response.SerializeToString,
    }
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "UnaryUnary": grpc.unary_unary_rpc_method_handler(unary_unary, **coding),
            "UnaryGenerator": grpc.unary_stream_rpc_method_handler(unary_generator, **coding),
            "UnaryWriter": grpc.unary_stream_rpc_method_handler(unary_writer, **coding),
            "StreamUnary": grpc.stream_unary_rpc_method_handler(stream_unary, **coding),
            "StreamGenerator": grpc.stream_stream_rpc_method_handler(stream_generator, **coding),
            "StreamWriter": grpc.stream_stream_rpc_method_handler(stream_writer, **coding),
        },
    )


@asynccontextmanager
async def serving(behavior: Behavior, *, translate: Translate) -> AsyncIterator[tuple[RpcServer, grpc.aio.Channel]]:
    """A running server and a channel to it."""
    handler = handlers(behavior)
    server = await start_server(
        services=[Service(name=SERVICE, add_to=lambda running: running.add_generic_rpc_handlers((handler,)))],
        address="127.0.0.1:0",
        translate=translate,
        max_request_bytes=LIMIT_BYTES,
    )
    try:
        async with open_channel(f"127.0.0.1:{server.port}", max_message_bytes=CLIENT_LIMIT_BYTES) as channel:
            yield server, channel
    finally:
        await server.stop(grace_s=0)


async def call_unary_unary(channel: grpc.aio.Channel, requests: list[bytes]) -> list[str]:
    method: Any = channel.unary_unary(f"/{SERVICE}/UnaryUnary", response_deserializer=Response.FromString)
    return [(await method(requests[0], timeout=TIMEOUT_S)).text]


async def call_stream_unary(channel: grpc.aio.Channel, requests: list[bytes]) -> list[str]:
    method: Any = channel.stream_unary(f"/{SERVICE}/StreamUnary", response_deserializer=Response.FromString)
    return [(await method(iter(requests), timeout=TIMEOUT_S)).text]


def call_unary_stream(name: str) -> Call:
    async def call(channel: grpc.aio.Channel, requests: list[bytes]) -> list[str]:
        method: Any = channel.unary_stream(f"/{SERVICE}/{name}", response_deserializer=Response.FromString)
        return [response.text async for response in method(requests[0], timeout=TIMEOUT_S)]

    return call


def call_stream_stream(name: str) -> Call:
    async def call(channel: grpc.aio.Channel, requests: list[bytes]) -> list[str]:
        method: Any = channel.stream_stream(f"/{SERVICE}/{name}", response_deserializer=Response.FromString)
        return [response.text async for response in method(iter(requests), timeout=TIMEOUT_S)]

    return call
