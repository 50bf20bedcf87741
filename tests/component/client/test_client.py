"""TwinlaneClient against an InferenceService of our own on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import grpc
import pytest
from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc

from libs.client import errors
from libs.client.client import TwinlaneClient
from libs.client.events import Completion, Delta, Event, Finished, RequestOptions, Started
from libs.client.retry import RetryPolicy
from libs.rpc.boundary import Context
from libs.rpc.fault import Fault, FaultError
from libs.rpc.server import Service, start_server

Step = Callable[[Context], Awaitable[None]]
QUICK = RetryPolicy(max_attempts=3, backoff_first_s=0.001, backoff_max_s=0.002)
SOON = RequestOptions(deadline_s=20)


class ScriptedInference(inference_pb2_grpc.InferenceServiceServicer):
    """Each call plays the next of the scripts given; the last one again and again."""

    def __init__(self, scripts: list[list[Step]]) -> None:
        self._scripts = scripts
        self.metadata: list[dict[str, str]] = []
        self.cancelled = asyncio.Event()

    # grpc.aio takes a coroutine that writes as well as an async generator.
    async def Generate(self, _request: Any, context: Any) -> None:  # type: ignore[override]
        try:
            for step in self._next(context):
                await step(context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def Complete(self, _request: Any, context: Any) -> inference_pb2.CompleteResponse:
        for step in self._next(context):
            await step(context)
        return inference_pb2.CompleteResponse(request_id="r", text="whole", attempts=1)

    def _next(self, context: Context) -> list[Step]:
        script = self._scripts[min(len(self.metadata), len(self._scripts) - 1)]
        self.metadata.append({key: str(value) for key, value in context.invocation_metadata() or ()})
        return script


def started() -> Step:
    response = inference_pb2.GenerateResponse(started=inference_pb2.Started(request_id="r", engine_id="e"))
    return lambda context: context.write(response)


def delta(text: str) -> Step:
    response = inference_pb2.GenerateResponse(delta=inference_pb2.Delta(text=text))
    return lambda context: context.write(response)


def finished() -> Step:
    last = inference_pb2.Finished(finish_reason=generation_pb2.FINISH_REASON_STOP, attempts=1)
    response = inference_pb2.GenerateResponse(finished=last)
    return lambda context: context.write(response)


def fail(code: grpc.StatusCode, reason: str, *, retry_after_s: float | None = None, never_retry: bool = False) -> Step:
    async def step(context: Context) -> None:
        raise FaultError(Fault(code=code, reason=reason, message="no", retry_after_s=retry_after_s, never_retry=never_retry))

    return step


def block() -> Step:
    async def step(context: Context) -> None:
        await asyncio.Event().wait()

    return step


@asynccontextmanager
async def serving(*scripts: list[Step]) -> AsyncIterator[tuple[ScriptedInference, TwinlaneClient]]:
    servicer = ScriptedInference(list(scripts))
    server = await start_server(
        services=[
            Service(
                name="twinlane.inference.v1.InferenceService",
                add_to=lambda server: inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server),
            )
        ],
        address="127.0.0.1:0",
        translate=lambda _error: None,
        max_request_bytes=100_000,
    )
    try:
        async with TwinlaneClient.connect(f"127.0.0.1:{server.port}", policy=QUICK, random=Random(1)) as client:
            yield servicer, client
    finally:
        await server.stop(grace_s=0)


UNAVAILABLE = fail(grpc.StatusCode.UNAVAILABLE, "NO_ENGINE")
ANSWER = [started(), delta("Hel"), delta("lo"), finished()]


async def _events(client: TwinlaneClient, options: RequestOptions = SOON) -> list[Event]:
    return [event async for event in client.generate("hi", options)]


async def _complete(client: TwinlaneClient) -> Completion:
    return await client.complete("hi", SOON)


async def _error(calling: Awaitable[object]) -> errors.TwinlaneError:
    with pytest.raises(errors.TwinlaneError) as caught:
        await calling
    return caught.value


def test_generate_answered_yields_the_events_in_order() -> None:
    async def run() -> None:
        async with serving(ANSWER) as (_, client):
            events = await _events(client)
        assert [type(event) for event in events] == [Started, Delta, Delta, Finished]
        assert "".join(event.text for event in events if isinstance(event, Delta)) == "Hello"

    asyncio.run(run())


def test_complete_answered_returns_the_answer() -> None:
    async def run() -> None:
        async with serving([]) as (_, client):
            completion = await _complete(client)
        assert (completion.text, completion.request_id, completion.retries) == ("whole", "r", 0)

    asyncio.run(run())


def test_generate_refused_twice_before_the_first_event_is_sent_again() -> None:
    async def run() -> None:
        limited = fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_after_s=0.001)
        async with serving([UNAVAILABLE], [limited], ANSWER) as (servicer, client):
            events = await _events(client)
        assert isinstance(events[-1], Finished)
        assert (events[-1].retries, len(servicer.metadata)) == (2, 3)

    asyncio.run(run())


def test_complete_refused_twice_is_sent_again() -> None:
    async def run() -> None:
        async with serving([UNAVAILABLE], [UNAVAILABLE], []) as (servicer, client):
            completion = await _complete(client)
        assert (completion.retries, len(servicer.metadata)) == (2, 3)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("step", "kind", "calls"),
    [
        pytest.param(UNAVAILABLE, errors.UnavailableError, 3, id="attempts-spent"),
        pytest.param(
            fail(grpc.StatusCode.UNAVAILABLE, "DRAINING", never_retry=True), errors.UnavailableError, 1, id="forbidden"
        ),
        pytest.param(
            fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_TERMINAL", never_retry=True),
            errors.QuotaExhaustedError,
            1,
            id="quota",
        ),
        pytest.param(fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "X"), errors.LimitedError, 1, id="limit-without-time"),
        pytest.param(
            fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "X", retry_after_s=3600),
            errors.LimitedError,
            1,
            id="time-past-the-deadline",
        ),
        pytest.param(fail(grpc.StatusCode.INTERNAL, "INTERNAL"), errors.InternalError, 1, id="internal"),
    ],
)
def test_call_failed_before_the_first_event_raises_after_its_attempts(
    step: Step, kind: type[errors.TwinlaneError], calls: int
) -> None:
    async def run() -> None:
        async with serving([step]) as (servicer, client):
            error = await _error(_events(client))
        assert type(error) is kind
        assert len(servicer.metadata) == calls
        assert error.retries == calls - 1

    asyncio.run(run())


def test_engine_lost_in_mid_answer_keeps_the_text_and_is_not_retried() -> None:
    async def run() -> None:
        lost = fail(grpc.StatusCode.ABORTED, "ENGINE_LOST")
        async with serving([started(), delta("Hel"), lost]) as (servicer, client):
            error = await _error(_events(client))
        assert type(error) is errors.EngineLostError
        assert (error.reason, error.partial_text, len(servicer.metadata)) == ("ENGINE_LOST", "Hel", 1)

    asyncio.run(run())


def test_stream_unavailable_after_its_start_is_not_retried() -> None:
    async def run() -> None:
        async with serving([started(), UNAVAILABLE]) as (servicer, client):
            error = await _error(_events(client))
        assert type(error) is errors.UnavailableError
        assert len(servicer.metadata) == 1

    asyncio.run(run())


def test_stream_that_ends_without_finished_is_an_error() -> None:
    async def run() -> None:
        async with serving([started(), delta("Hel")]) as (_, client):
            error = await _error(_events(client))
        assert (error.reason, error.partial_text) == ("UNFINISHED_STREAM", "Hel")

    asyncio.run(run())


def test_deadline_passed_in_mid_answer_raises_with_the_text() -> None:
    async def run() -> None:
        async with serving([started(), delta("Hel"), block()]) as (servicer, client):
            error = await _error(_events(client, RequestOptions(deadline_s=0.5)))
            await servicer.cancelled.wait()
        assert type(error) is errors.DeadlineError
        assert error.partial_text == "Hel"

    asyncio.run(run())


def test_leaving_the_stream_early_cancels_the_call() -> None:
    async def run() -> None:
        async with serving([started(), block()]) as (servicer, client):
            async with aclosing(client.generate("hi", SOON)) as events:
                assert isinstance(await anext(events), Started)
            await servicer.cancelled.wait()

    asyncio.run(run())


def test_tenant_and_metadata_reach_the_server() -> None:
    async def run() -> None:
        async with serving(ANSWER) as (servicer, client):
            await _events(client, RequestOptions(deadline_s=20, tenant="bank", metadata={"x-priority": "low"}))
        assert servicer.metadata[0]["x-tenant"] == "bank"
        assert servicer.metadata[0]["x-priority"] == "low"

    asyncio.run(run())


def test_call_to_nobody_raises_unavailable() -> None:
    async def run() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{bound.getsockname()[1]}"
            async with TwinlaneClient.connect(address, policy=QUICK, random=Random(1)) as client:
                error = await _error(_complete(client))
        assert type(error) is errors.UnavailableError
        assert error.reason == "UNKNOWN"

    asyncio.run(run())


def test_request_over_the_servers_limit_names_the_limit() -> None:
    async def run() -> None:
        async with serving([]) as (_, client):
            error = await _error(client.complete("x" * 100_001, SOON))
        assert isinstance(error, errors.InvalidRequestError)
        assert error.reason == "MESSAGE_TOO_LARGE"
        assert error.fault.metadata["limit_bytes"] == "100000"

    asyncio.run(run())


def test_connect_to_what_is_no_address_names_it() -> None:
    with pytest.raises(ValueError, match="'router' is not host:port"):
        TwinlaneClient.connect("router")
