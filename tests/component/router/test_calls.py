"""Callers' requests through a real router, engines played by the test."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from twinlane.common.v1 import engine_pb2 as common_pb2
from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.engine.v1 import engine_pb2
from twinlane.inference.v1 import inference_pb2
from twinlane.router.v1 import admin_pb2, admin_pb2_grpc

from libs.core.clock import ManualClock
from libs.rpc.fault import Fault, FaultError, read_fault
from services.router.config import StaticEngineConfig
from services.router.domain import TableSource
from services.router.main import start
from tests.component.router.fakes import (
    FakeEngine,
    Mesh,
    batch,
    open_mesh,
    realtime,
    router_config,
    wait_for,
)


def complete(prompt: str = "hello there", **fields: Any) -> inference_pb2.CompleteRequest:
    return inference_pb2.CompleteRequest(prompt=prompt, **fields)


def generate(prompt: str = "hello there", **fields: Any) -> inference_pb2.GenerateRequest:
    return inference_pb2.GenerateRequest(prompt=prompt, **fields)


async def fault_of(call: Awaitable[Any]) -> Fault:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return read_fault(caught.value)


async def collect(stream: Any) -> list[Any]:
    return [message async for message in stream]


def refuse(code: grpc.StatusCode, reason: str) -> Callable[..., Awaitable[None]]:
    async def act(request: Any, context: Any) -> None:
        raise FaultError(Fault(code=code, reason=reason, message="as the engine says", metadata={"limit": "7"}))

    return act


async def hang(request: Any, context: Any) -> None:
    await asyncio.Event().wait()


async def start_and_hang(request: Any, context: Any) -> None:
    await context.write(engine_pb2.GenerateResponse(started=engine_pb2.Started(request_id=request.request_id)))
    await context.write(engine_pb2.GenerateResponse(delta=engine_pb2.Delta(text="a", token_ids=[1, 2])))
    await asyncio.Event().wait()


def test_complete_answer_carries_the_routers_fields() -> None:
    async def scenario() -> None:
        engine = realtime()
        async with open_mesh(engine) as mesh:
            answer = await mesh.stub.Complete(complete(request_id="mine"))
            assert (answer.request_id, answer.text, answer.engine_id) == ("mine", "hello world", "rt-1")
            assert (answer.lane, answer.attempts) == (lane_pb2.LANE_AUTO, 1)
            assert answer.timings.router_total_ms >= answer.timings.router_queue_ms > 0
            assert engine.requests[0].request_id != "mine"

    asyncio.run(scenario())


def test_stream_is_one_started_deltas_and_one_finished() -> None:
    async def scenario() -> None:
        async with open_mesh(realtime()) as mesh:
            events = await collect(mesh.stub.Generate(generate(request_id="mine", lane=lane_pb2.LANE_REALTIME)))
            assert [event.WhichOneof("event") for event in events] == ["started", "delta", "delta", "finished"]
            assert (events[0].started.request_id, events[0].started.lane) == ("mine", lane_pb2.LANE_REALTIME)
            assert "".join(event.delta.text for event in events) == "hello world"
            assert events[-1].finished.attempts == 1

    asyncio.run(scenario())


def test_lanes_go_to_their_pools() -> None:
    async def scenario() -> None:
        async with open_mesh(realtime(), batch()) as mesh:
            by_field = await mesh.stub.Complete(complete(lane=lane_pb2.LANE_BATCH))
            by_length = await mesh.stub.Complete(complete("word " * 2001))
            by_metadata = await mesh.stub.Complete(complete(), metadata=(("x-require-low-latency", "true"),))
            assert (by_field.engine_id, by_field.lane) == ("b-1", lane_pb2.LANE_BATCH)
            assert (by_length.engine_id, by_length.lane) == ("b-1", lane_pb2.LANE_BATCH)
            assert (by_metadata.engine_id, by_metadata.lane) == ("rt-1", lane_pb2.LANE_REALTIME)

    asyncio.run(scenario())


def test_least_backlog_gets_the_request() -> None:
    async def scenario() -> None:
        first, second = realtime("rt-1"), realtime("rt-2")
        async with open_mesh(first, second) as mesh:
            await mesh.publish(first, second, backlogs={"rt-1": 5000})
            answers = [await mesh.stub.Complete(complete()) for _ in range(5)]
            assert {answer.engine_id for answer in answers} == {"rt-2"}

    asyncio.run(scenario())


def test_burst_between_two_readings_is_spread() -> None:
    async def scenario() -> None:
        engines = [realtime(f"rt-{number}") for number in range(4)]
        released = asyncio.Event()

        async def wait(request: Any, context: Any) -> None:
            await released.wait()

        for engine in engines:
            engine.act = wait
        async with open_mesh(*engines) as mesh:
            calls = [asyncio.ensure_future(mesh.stub.Complete(complete())) for _ in range(40)]
            await wait_for(lambda: sum(len(engine.requests) for engine in engines) == 40)
            assert [len(engine.requests) for engine in engines] == [10, 10, 10, 10]
            released.set()
            await asyncio.gather(*calls)

    asyncio.run(scenario())


def test_cache_salts_are_bound_to_the_tenant() -> None:
    async def scenario() -> None:
        engine = realtime()
        async with open_mesh(engine) as mesh:
            for tenant in ("a", "b", "a"):
                await mesh.stub.Complete(complete(), metadata=(("x-tenant", tenant),))
            salts = [request.cache_salt for request in engine.requests]
            assert salts[0] == salts[2] != salts[1]

    asyncio.run(scenario())


def test_trace_context_and_deadline_travel_on_and_nothing_else_does() -> None:
    async def scenario() -> None:
        engine = realtime()
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        async with open_mesh(engine) as mesh:
            await mesh.stub.Complete(complete(), timeout=5, metadata=(("traceparent", trace), ("x-tenant", "a")))
            assert engine.metadata[0]["traceparent"] == trace
            assert "x-tenant" not in engine.metadata[0]
            assert engine.remaining_s[0] is not None
            # gRPC rounds up on the way.
            assert 0 < engine.remaining_s[0] <= 5.1

    asyncio.run(scenario())


def test_call_without_deadline_gets_that_of_its_lane() -> None:
    async def scenario() -> None:
        engine = realtime()
        async with open_mesh(engine) as mesh:
            await mesh.stub.Complete(complete(lane=lane_pb2.LANE_REALTIME))
            assert engine.remaining_s[0] is not None
            assert 15 < engine.remaining_s[0] <= 20.4

    asyncio.run(scenario())


@pytest.mark.parametrize("reason", ["DRAINING", "WARMING"])
def test_engine_that_refuses_before_the_first_token_is_replaced(reason: str) -> None:
    async def scenario() -> None:
        first, second = realtime("rt-1"), realtime("rt-2")
        async with open_mesh(first, second) as mesh:
            await mesh.publish(first, second, backlogs={"rt-2": 5000})
            first.act = refuse(grpc.StatusCode.UNAVAILABLE, reason)
            answer = await mesh.stub.Complete(complete())
            events = await collect(mesh.stub.Generate(generate()))
            assert (answer.engine_id, answer.attempts) == ("rt-2", 2)
            assert (events[0].started.engine_id, events[-1].finished.attempts) == ("rt-2", 2)

    asyncio.run(scenario())


def test_dead_engine_is_replaced_and_then_passed_over() -> None:
    async def scenario() -> None:
        first, second = realtime("rt-1"), realtime("rt-2")
        async with open_mesh(first, second) as mesh:
            await mesh.publish(first, second, backlogs={"rt-2": 5000})
            await first.kill()
            assert (await mesh.stub.Complete(complete())).attempts == 2
            assert (await mesh.stub.Complete(complete())).attempts == 1

    asyncio.run(scenario())


def test_engines_own_refusal_is_passed_on_and_not_retried() -> None:
    async def scenario() -> None:
        first, second = realtime("rt-1"), realtime("rt-2")
        first.act = second.act = refuse(grpc.StatusCode.INVALID_ARGUMENT, "SOMETHING_WRONG")
        async with open_mesh(first, second) as mesh:
            fault = await fault_of(mesh.stub.Complete(complete()))
            assert (fault.code, fault.reason, dict(fault.metadata)) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                "SOMETHING_WRONG",
                {"limit": "7"},
            )
            assert len(first.requests) + len(second.requests) == 1

    asyncio.run(scenario())


def test_engine_lost_in_mid_stream_says_how_much_was_sent_and_is_not_retried() -> None:
    async def scenario() -> None:
        first, second = realtime("rt-1"), realtime("rt-2")
        first.act = start_and_hang
        async with open_mesh(first, second) as mesh:
            await mesh.publish(first, second, backlogs={"rt-2": 5000})
            stream = mesh.stub.Generate(generate())
            await stream.read()
            await stream.read()
            await first.kill()
            fault = await fault_of(stream.read())
            assert (fault.code, fault.reason) == (grpc.StatusCode.ABORTED, "ENGINE_LOST")
            assert dict(fault.metadata) == {"engine_id": "rt-1", "tokens_sent": "2"}
            assert not second.requests

    asyncio.run(scenario())


def test_only_engine_lost_before_the_first_token_is_unavailable_with_a_retry_time() -> None:
    async def scenario() -> None:
        engine = realtime()
        async with open_mesh(engine) as mesh:
            await engine.kill()
            fault = await fault_of(mesh.stub.Complete(complete()))
            assert (fault.code, fault.reason) == (grpc.StatusCode.UNAVAILABLE, "ENGINE_LOST")
            assert fault.retry_after_s is not None

    asyncio.run(scenario())


@pytest.mark.parametrize("streamed", [False, True])
def test_callers_cancel_reaches_the_engine(streamed: bool) -> None:
    async def scenario() -> None:
        engine = realtime()
        engine.act = start_and_hang if streamed else hang
        async with open_mesh(engine) as mesh:
            call = mesh.stub.Generate(generate()) if streamed else mesh.stub.Complete(complete())
            await wait_for(lambda: len(engine.requests) == 1)
            call.cancel()
            async with asyncio.timeout(1):
                await engine.cancelled.wait()

    asyncio.run(scenario())


@pytest.mark.parametrize("streamed", [False, True])
def test_deadline_ends_the_call_and_the_engines_work(streamed: bool) -> None:
    async def scenario() -> None:
        engine = realtime()
        engine.act = hang
        async with open_mesh(engine) as mesh:
            call = mesh.stub.Generate(generate(), timeout=0.3) if streamed else mesh.stub.Complete(complete(), timeout=0.3)
            fault = await fault_of(call.read() if streamed else call)
            assert fault.code is grpc.StatusCode.DEADLINE_EXCEEDED
            async with asyncio.timeout(1):
                await engine.cancelled.wait()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        pytest.param(complete(""), "EMPTY_PROMPT", "prompt", id="empty"),
        pytest.param(complete("word " * 5000), "PROMPT_TOO_LONG", "input", id="over-every-engines-limit"),
        pytest.param(
            complete(stopping=generation_pb2.Stopping(max_new_tokens=5000)),
            "TOO_MANY_NEW_TOKENS",
            "stopping.max_new_tokens",
            id="more-new-tokens-than-there-is-room",
        ),
        pytest.param(complete("x" * 70_000), "MESSAGE_TOO_LARGE", "request", id="oversized"),
    ],
)
def test_bad_request_names_its_field_and_reaches_no_engine(
    request_: inference_pb2.CompleteRequest, reason: str, field: str
) -> None:
    async def scenario() -> None:
        engines = realtime(), batch()
        async with open_mesh(*engines) as mesh:
            fault = await fault_of(mesh.stub.Complete(request_))
            assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
            assert [violation.field for violation in fault.violations] == [field]
            assert not any(engine.requests for engine in engines)

    asyncio.run(scenario())


def test_invalid_utf8_names_its_field() -> None:
    async def scenario() -> None:
        async with open_mesh(realtime()) as mesh:
            call: Any = mesh.channel.unary_unary("/twinlane.inference.v1.InferenceService/Complete")
            fault = await fault_of(call(b"\x1a\x02\xff\xfe"))
            assert (fault.reason, fault.violations[0].field) == ("INVALID_UTF8", "prompt")

    asyncio.run(scenario())


def test_no_engine_and_all_draining_are_told_apart() -> None:
    async def scenario() -> None:
        engine = realtime()
        async with open_mesh(engine) as mesh:
            engine.state = common_pb2.ENGINE_STATE_DRAINING
            await mesh.publish(engine)
            draining = await fault_of(mesh.stub.Complete(complete()))
            engine.state = common_pb2.ENGINE_STATE_UNHEALTHY
            await mesh.publish(engine)
            unhealthy = await fault_of(mesh.stub.Complete(complete()))
            await mesh.publish()
            none = await fault_of(mesh.stub.Complete(complete()))
            assert [fault.reason for fault in (draining, unhealthy, none)] == ["DRAINING", "NO_ENGINE", "NO_ENGINE"]
            assert all(fault.retry_after_s for fault in (draining, unhealthy, none))

    asyncio.run(scenario())


def test_controller_gone_leaves_callers_undisturbed_and_is_found_again() -> None:
    async def scenario() -> None:
        engine, late = realtime("rt-1"), realtime("rt-2")
        await late.start()
        async with open_mesh(engine) as mesh:
            address = mesh.controller.address
            await mesh.controller.kill()
            await wait_for(lambda: mesh.router.table.source is TableSource.RETAINED)
            assert (await mesh.stub.Complete(complete())).engine_id == "rt-1"
            await mesh.controller.start(address)
            await engine.kill()
            await mesh.publish(late)
            assert (await mesh.stub.Complete(complete())).engine_id == "rt-2"
        await late.kill()

    asyncio.run(scenario())


def test_engine_restarted_at_the_same_address_is_a_new_life() -> None:
    async def scenario() -> None:
        engine = realtime()
        engine.act = hang
        async with open_mesh(engine) as mesh:
            old = asyncio.ensure_future(fault_of(mesh.stub.Complete(complete())))
            await wait_for(lambda: len(engine.requests) == 1)
            address = engine.descriptor.address
            await engine.kill()
            engine.act, engine.descriptor.epoch = None, 2
            await engine.start(address)
            await mesh.publish(engine)
            assert (await old).reason == "ENGINE_LOST"
            assert (await mesh.stub.Complete(complete())).text == "hello world"
            (slot,) = mesh.router.table.slots
            assert (slot.descriptor.epoch, slot.in_flight) == (2, 0)

    asyncio.run(scenario())


def test_static_engines_serve_while_the_controller_was_never_there() -> None:
    async def scenario() -> None:
        engine = realtime("found-out", context=512)
        await engine.start()
        static = StaticEngineConfig(
            engine_id="rt-1", address=engine.descriptor.address, pool="realtime", max_context_tokens=512
        )
        router = await start(router_config("127.0.0.1:1", static=(static,)))
        try:
            await wait_for(lambda: bool(router.table.slots))
            async with grpc.aio.insecure_channel(router.address) as channel:
                call: Any = channel.unary_unary(
                    "/twinlane.inference.v1.InferenceService/Complete",
                    request_serializer=inference_pb2.CompleteRequest.SerializeToString,
                    response_deserializer=inference_pb2.CompleteResponse.FromString,
                )
                assert (await call(complete())).text == "hello world"
                admin: Any = admin_pb2_grpc.RouterAdminServiceStub(channel)
                status = await admin.GetStatus(admin_pb2.GetStatusRequest())
                assert status.table_source == admin_pb2.TABLE_SOURCE_STATIC
                assert [entry.descriptor.engine_id for entry in status.engines] == ["rt-1"]
                assert sum(lane.answered_total for lane in status.lanes) == 1
        finally:
            await router.stop()
            await engine.kill()

    asyncio.run(scenario())


def test_stopping_router_lets_running_streams_end_and_refuses_new_calls() -> None:
    async def scenario() -> None:
        engine = realtime()
        going_on = asyncio.Event()

        async def slow(request: Any, context: Any) -> None:
            await context.write(engine_pb2.GenerateResponse(started=engine_pb2.Started()))
            await going_on.wait()

        engine.act = slow
        async with open_mesh(engine) as mesh:
            stream = mesh.stub.Generate(generate())
            await stream.read()
            stopping = asyncio.ensure_future(mesh.router.stop())
            fault = await fault_of(_another(mesh))
            going_on.set()
            assert (await stream.read()).WhichOneof("event") == "finished"
            await stopping
            assert (fault.code, fault.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
            assert fault.retry_after_s is not None

    asyncio.run(scenario())


async def _another(mesh: Mesh) -> Any:
    """Call until the router refuses."""
    async with asyncio.timeout(5):
        while True:
            call = mesh.stub.Complete(complete(), timeout=0.2)
            try:
                await call
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    raise


@pytest.mark.parametrize("streamed", [False, True])
def test_at_most_three_engines_are_called_for_one_request(streamed: bool) -> None:
    async def scenario() -> None:
        engines = [realtime(f"rt-{number}") for number in range(5)]
        for engine in engines:
            engine.act = refuse(grpc.StatusCode.UNAVAILABLE, "WARMING")
        async with open_mesh(*engines) as mesh:
            fault = await fault_of(mesh.stub.Generate(generate()).read() if streamed else mesh.stub.Complete(complete()))
            assert (fault.code, fault.reason) == (grpc.StatusCode.UNAVAILABLE, "WARMING")
            assert sorted(len(engine.requests) for engine in engines) == [0, 0, 1, 1, 1]

    asyncio.run(scenario())


def test_lost_engine_is_the_answer_where_those_left_cannot_hold_the_request() -> None:
    async def scenario() -> None:
        small, large = realtime(context=512), batch(context=4096)
        async with open_mesh(small, large) as mesh:
            await large.kill()
            fault = await fault_of(mesh.stub.Complete(complete("word " * 1000, lane=lane_pb2.LANE_REALTIME)))
            assert (fault.code, fault.reason) == (grpc.StatusCode.UNAVAILABLE, "ENGINE_LOST")

    asyncio.run(scenario())


def test_request_that_only_an_engine_now_away_could_hold_is_no_bad_request() -> None:
    async def scenario() -> None:
        small, large = realtime(context=512), batch(context=4096)
        async with open_mesh(small, large) as mesh:
            large.state = common_pb2.ENGINE_STATE_UNHEALTHY
            await mesh.publish(small, large)
            fault = await fault_of(mesh.stub.Complete(complete("word " * 1000, lane=lane_pb2.LANE_REALTIME)))
            assert (fault.code, fault.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_ENGINE")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("events", "code", "tokens_sent"),
    [
        pytest.param([], grpc.StatusCode.UNAVAILABLE, "0", id="nothing-came"),
        pytest.param(
            [
                engine_pb2.GenerateResponse(started=engine_pb2.Started()),
                engine_pb2.GenerateResponse(delta=engine_pb2.Delta(text="a", token_ids=[1, 2, 3])),
            ],
            grpc.StatusCode.ABORTED,
            "3",
            id="broken-off",
        ),
    ],
)
def test_stream_that_ends_without_finished_is_no_answer(
    events: list[engine_pb2.GenerateResponse], code: grpc.StatusCode, tokens_sent: str
) -> None:
    async def scenario() -> None:
        engine = realtime()

        async def stop_short(request: Any, context: Any) -> None:
            for event in events:
                await context.write(event)

        engine.act, engine.finishes = stop_short, False
        async with open_mesh(engine) as mesh:
            fault = await fault_of(collect(mesh.stub.Generate(generate())))
            assert (fault.code, fault.reason, fault.metadata["tokens_sent"]) == (code, "ENGINE_LOST", tokens_sent)

    asyncio.run(scenario())


def test_event_that_the_router_does_not_know_is_handed_on_as_it_is() -> None:
    async def scenario() -> None:
        engine = realtime()
        newer = engine_pb2.GenerateResponse.FromString(b"\x22\x01\x00")  # field 4, which no event has yet

        async def act(request: Any, context: Any) -> None:
            await context.write(engine_pb2.GenerateResponse(started=engine_pb2.Started()))
            await context.write(newer)

        engine.act = act
        async with open_mesh(engine) as mesh:
            events = await collect(mesh.stub.Generate(generate()))
            assert [event.WhichOneof("event") for event in events] == ["started", None, "finished"]
            assert events[1].SerializeToString() == newer.SerializeToString()

    asyncio.run(scenario())


@pytest.mark.parametrize("streamed", [False, True])
def test_deadline_spent_between_two_engines_leaves_no_lease(streamed: bool) -> None:
    async def scenario() -> None:
        first, second = realtime("rt-1"), realtime("rt-2")
        clock = ManualClock()

        async def take_long_and_refuse(request: Any, context: Any) -> None:
            clock.advance(30)
            await refuse(grpc.StatusCode.UNAVAILABLE, "DRAINING")(request, context)

        first.act = second.act = take_long_and_refuse
        async with open_mesh(first, second, clock=clock) as mesh:
            call = mesh.stub.Generate(generate(), timeout=9) if streamed else mesh.stub.Complete(complete(), timeout=9)
            fault = await fault_of(call.read() if streamed else call)
            assert (fault.code, fault.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_IN_QUEUE")
            assert len(first.requests) + len(second.requests) == 1

    asyncio.run(scenario())


def test_fifty_streams_of_a_killed_engine_end_clean() -> None:
    async def scenario() -> None:
        engine: FakeEngine = realtime()
        engine.act = start_and_hang
        async with open_mesh(engine) as mesh:
            streams = [mesh.stub.Generate(generate()) for _ in range(50)]
            for stream in streams:
                await stream.read()
                await stream.read()
            await engine.kill()
            faults = [await fault_of(stream.read()) for stream in streams]
            assert {(fault.code, fault.reason) for fault in faults} == {(grpc.StatusCode.ABORTED, "ENGINE_LOST")}

    asyncio.run(scenario())
