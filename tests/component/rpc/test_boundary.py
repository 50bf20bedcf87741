"""The exception boundary, in every arity and both styles of streaming."""

import asyncio
from typing import Any, NoReturn

import grpc
import pytest
from structlog.testing import capture_logs

from libs.rpc.boundary import INTERNAL_FAULT, Context
from libs.rpc.decode import INVALID_UTF8, MALFORMED
from libs.rpc.fault import PUSHBACK_KEY, Fault, FaultError, FieldViolation, invalid_argument, read_fault
from tests.component.rpc.serving import (
    LIMIT_BYTES,
    SERVICE,
    Call,
    Request,
    call_stream_stream,
    call_stream_unary,
    call_unary_stream,
    call_unary_unary,
    serving,
)

EVERY_ARITY = pytest.mark.parametrize(
    "call",
    [
        pytest.param(call_unary_unary, id="unary-unary"),
        pytest.param(call_unary_stream("UnaryGenerator"), id="unary-stream-generator"),
        pytest.param(call_unary_stream("UnaryWriter"), id="unary-stream-writer"),
        pytest.param(call_stream_unary, id="stream-unary"),
        pytest.param(call_stream_stream("StreamGenerator"), id="stream-stream-generator"),
        pytest.param(call_stream_stream("StreamWriter"), id="stream-stream-writer"),
    ],
)
SECRET = "the prompt was: my account number"


class OurError(Exception):
    """Known to the translation table of these tests."""


OUR_FAULT = Fault(
    code=grpc.StatusCode.RESOURCE_EXHAUSTED,
    reason="QUEUE_FULL",
    message="51 requests wait",
    metadata={"depth": "51"},
    retry_after_s=0.75,
)


def _translate(error: Exception) -> Fault | None:
    return OUR_FAULT if isinstance(error, OurError) else None


async def _echo(prompt: str, _context: Context) -> str:
    return prompt


def _good(prompt: str = "hi") -> bytes:
    return Request(prompt=prompt).SerializeToString()


async def _failure(call: Call, raw: list[bytes], error: Exception | None = None) -> grpc.aio.AioRpcError:
    async def behavior(prompt: str, context: Context) -> str:
        if error is None:
            return await _echo(prompt, context)
        raise error

    async with serving(behavior, translate=_translate) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, raw)
        return caught.value


@EVERY_ARITY
def test_call_answered_passes_through(call: Call) -> None:
    async def run() -> None:
        async with serving(_echo, translate=_translate) as (_, channel):
            assert (await call(channel, [_good("hi")]))[-1] == "hi"

    asyncio.run(run())


@EVERY_ARITY
def test_translated_exception_ends_the_call_with_its_fault_and_trailers(call: Call) -> None:
    error = asyncio.run(_failure(call, [_good()], OurError()))
    assert read_fault(error) == OUR_FAULT
    assert dict(error.trailing_metadata())[PUSHBACK_KEY] == "750"


@EVERY_ARITY
def test_fault_error_ends_the_call_with_its_fault(call: Call) -> None:
    fault = invalid_argument("BAD", FieldViolation("prompt", "is empty"))
    assert read_fault(asyncio.run(_failure(call, [_good()], FaultError(fault)))) == fault


@EVERY_ARITY
def test_unknown_exception_is_internal_and_its_message_stays_in_the_log(call: Call) -> None:
    with capture_logs() as logs:
        error = asyncio.run(_failure(call, [_good()], RuntimeError(SECRET)))
    assert read_fault(error) == INTERNAL_FAULT
    assert SECRET not in repr(error) + repr(error.trailing_metadata())
    assert [entry["event"] for entry in logs] == ["unmapped exception"]


@EVERY_ARITY
def test_request_with_invalid_utf8_names_the_field(call: Call) -> None:
    fault = read_fault(asyncio.run(_failure(call, [b"\x1a\x01\xff"])))
    assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, INVALID_UTF8)
    assert fault.violations == (FieldViolation("prompt", "is not valid UTF-8 at byte 0"),)


@EVERY_ARITY
def test_request_of_broken_bytes_names_the_message(call: Call) -> None:
    fault = read_fault(asyncio.run(_failure(call, [b"\x1a\x7f"])))
    assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, MALFORMED)
    assert fault.violations[0].field == "twinlane.inference.v1.CompleteRequest"


@EVERY_ARITY
def test_request_over_our_limit_names_size_and_limit(call: Call) -> None:
    raw = _good("x" * LIMIT_BYTES)
    fault = read_fault(asyncio.run(_failure(call, [raw])))
    assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
    assert fault.metadata == {"limit_bytes": str(LIMIT_BYTES), "size_bytes": str(len(raw))}


@EVERY_ARITY
def test_request_over_the_transports_limit_is_refused_with_both_sizes(call: Call) -> None:
    raw = _good("x" * LIMIT_BYTES * 4)
    error = asyncio.run(_failure(call, [raw]))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"({len(raw)} vs. {LIMIT_BYTES * 4})" in str(error.details())


def test_second_streamed_request_that_is_bad_ends_the_call_after_the_first_answer() -> None:
    async def run() -> None:
        async with serving(_echo, translate=_translate) as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call_stream_stream("StreamWriter")(channel, [_good("one"), b"\x1a\x01\xff"])
        assert read_fault(caught.value).reason == INVALID_UTF8

    asyncio.run(run())


def test_abort_by_the_handler_itself_is_left_as_it_is() -> None:
    async def abort(_prompt: str, context: Context) -> NoReturn:
        await context.abort(grpc.StatusCode.NOT_FOUND, "not here")

    async def run() -> None:
        async with serving(abort, translate=_translate) as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call_unary_unary(channel, [_good()])
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "not here")

    asyncio.run(run())


def test_call_cancelled_by_the_caller_reaches_the_handler_as_cancellation() -> None:
    async def run() -> None:
        entered, cancelled = asyncio.Event(), asyncio.Event()

        async def wait(_prompt: str, _context: Context) -> str:
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return ""

        async with serving(wait, translate=_translate) as (_, channel):
            call = asyncio.create_task(call_unary_unary(channel, [_good()]))
            await entered.wait()
            call.cancel()
            await cancelled.wait()

    asyncio.run(run())


def test_unknown_method_is_unimplemented() -> None:
    async def run() -> None:
        async with serving(_echo, translate=_translate) as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call_unary_stream("Nothing")(channel, [_good()])
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(run())


def test_generator_left_by_its_caller_is_closed() -> None:
    async def run() -> None:
        closed = asyncio.Event()

        async def wait(_prompt: str, _context: Context) -> str:
            try:
                await asyncio.Event().wait()
            finally:
                closed.set()
            return ""

        async with serving(wait, translate=_translate) as (_, channel):
            method: Any = channel.unary_stream(f"/{SERVICE}/UnaryGenerator")
            call = method(_good())
            await call.read()
            call.cancel()
            await closed.wait()

    asyncio.run(run())
