"""The one place per server where exceptions become status codes.

Handlers raise; the boundary ends the call with the fault. It also takes over parsing, so that a malformed request gets
the same kind of answer as any other bad one. All four call arities are covered: for streamed answers both styles of grpc.aio
(async generator, and coroutine that writes to the context).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
import structlog
from google.protobuf.message import Message

from libs.rpc.decode import parse
from libs.rpc.fault import Fault, FaultError, FieldViolation, to_call_status

_log = structlog.get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Translate: TypeAlias = Callable[[Exception], Fault | None]

INTERNAL_FAULT = Fault(
    code=grpc.StatusCode.INTERNAL, reason="INTERNAL", message="internal error; the server's log has it under the request's time"
)


class Boundary:
    """Maps exceptions of a service to faults by `translate`; what that leaves unmapped is INTERNAL with a fixed text.

    `max_request_bytes` is the mesh's own limit, below the transport's, so that the refusal can name it. Handlers are wrapped
    when they are added to the server, once: an interceptor would wrap them anew for every call.
    """

    def __init__(self, translate: Translate, *, max_request_bytes: int) -> None:
        self._translate = translate
        self._max_request_bytes = max_request_bytes

    def guard(self, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        """Return the handler of one method, guarded."""
        decode = self._decoder(handler)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._single(handler.unary_unary, decode), response_serializer=handler.response_serializer
            )
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(
                self._streamed(handler.unary_stream, decode), response_serializer=handler.response_serializer
            )
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(
                self._single(handler.stream_unary, _each(decode)), response_serializer=handler.response_serializer
            )
        return grpc.stream_stream_rpc_method_handler(
            self._streamed(handler.stream_stream, _each(decode)), response_serializer=handler.response_serializer
        )

    def _decoder(self, handler: grpc.RpcMethodHandler[Any, Any]) -> Callable[[bytes], Any]:
        deserialize = handler.request_deserializer
        owner: object = getattr(deserialize, "__self__", None)
        message_type = owner if isinstance(owner, type) and issubclass(owner, Message) else None
        limit = self._max_request_bytes

        def decode(raw: bytes) -> Any:
            if len(raw) > limit:
                raise FaultError(_too_large(len(raw), limit))
            if message_type is not None:
                return parse(message_type, raw)
            return raw if deserialize is None else deserialize(raw)

        return decode

    def _single(self, behavior: Any, decode: Callable[[Any], Any]) -> Any:
        async def call(request: Any, context: Context) -> Any:
            try:
                return await behavior(decode(request), context)
            except Exception as error:
                await self._abort(error, context)

        return call

    def _streamed(self, behavior: Any, decode: Callable[[Any], Any]) -> Any:
        if not inspect.isasyncgenfunction(behavior):
            return self._single(behavior, decode)

        async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                async with aclosing(behavior(decode(request), context)) as responses:
                    async for response in responses:
                        yield response
            except Exception as error:
                await self._abort(error, context)

        return stream

    async def _abort(self, error: Exception, context: Context) -> None:
        if isinstance(error, grpc.aio.AbortError):
            raise error
        fault = error.fault if isinstance(error, FaultError) else self._translate(error)
        if fault is None:
            _log.error("unmapped exception", exc_info=error)
            fault = INTERNAL_FAULT
        await context.abort_with_status(to_call_status(fault))


def _each(decode: Callable[[bytes], Any]) -> Callable[[AsyncIterator[bytes]], AsyncIterator[Any]]:
    async def decoded(requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for raw in requests:
            yield decode(raw)

    return decoded


def _too_large(size: int, limit: int) -> Fault:
    return Fault(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="MESSAGE_TOO_LARGE",
        message=f"request: {size} bytes are over the limit of {limit}",
        metadata={"limit_bytes": str(limit), "size_bytes": str(size)},
        violations=(FieldViolation("request", f"is {size} bytes; at most {limit}"),),
    )


class GuardedServer:
    """What services add their handlers to: hands them on to the server, guarded."""

    def __init__(self, server: grpc.aio.Server, boundary: Boundary) -> None:
        self._server = server
        self._boundary = boundary

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """As grpc.aio.Server."""
        self._server.add_generic_rpc_handlers([_GuardedHandler(handler, self._boundary) for handler in generic_rpc_handlers])

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """As grpc.aio.Server."""
        guarded = {method: self._boundary.guard(handler) for method, handler in method_handlers.items()}
        self._server.add_registered_method_handlers(service_name, guarded)


class _GuardedHandler(grpc.GenericRpcHandler):
    """Looks a method's handler up in another one and guards it, once a method."""

    def __init__(self, handler: grpc.GenericRpcHandler, boundary: Boundary) -> None:
        self._handler = handler
        self._boundary = boundary
        self._guarded: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        guarded = self._guarded.get(handler_call_details.method)
        if guarded is None:
            handler = self._handler.service(handler_call_details)
            if handler is None:
                return None
            guarded = self._guarded[handler_call_details.method] = self._boundary.guard(handler)
        return guarded
