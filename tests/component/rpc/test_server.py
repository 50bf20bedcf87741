"""Listening, health, reflection and drain."""

import asyncio
import socket
import subprocess
import sys
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from libs.rpc.address import ListenError, check_can_listen
from libs.rpc.boundary import Context
from libs.rpc.server import start_server
from tests.component.rpc.serving import SERVICE, Request, call_unary_stream, call_unary_unary, serving

GOOD = [Request(prompt="hi").SerializeToString()]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def _echo(prompt: str, _context: Context) -> str:
    return prompt


async def _health(channel: grpc.aio.Channel, service: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return int((await stub.Check(health_pb2.HealthCheckRequest(service=service))).status)


def _nothing_listens(address: str) -> None:
    async def run() -> None:
        await start_server(services=[], address=address, translate=lambda _error: None, max_request_bytes=1)

    asyncio.run(run())


def test_start_on_a_port_in_use_raises_and_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match=rf"^cannot listen on {address} for gRPC: Address already in use$"):
            _nothing_listens(address)


def test_start_on_a_port_of_another_server_of_ours_raises() -> None:
    async def run() -> None:
        async with serving(_echo, translate=lambda _error: None) as (server, _):
            with pytest.raises(ListenError, match="Address already in use"):
                await start_server(
                    services=[], address=f"127.0.0.1:{server.port}", translate=lambda _error: None, max_request_bytes=1
                )

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param("203.0.113.1:0", "Cannot assign requested address", id="not-this-machines"),
        pytest.param("no-such-host.invalid:0", "for gRPC: ", id="unknown-name"),
        pytest.param("127.0.0.1", "is not host:port", id="no-port"),
        pytest.param("127.0.0.1:70000", "has no port between", id="port-too-large"),
    ],
)
def test_start_on_an_impossible_address_names_it(address: str, words: str) -> None:
    with pytest.raises(ListenError) as caught:
        _nothing_listens(address)
    assert str(caught.value).startswith(f"cannot listen on {address} ")
    assert words in str(caught.value)


def test_check_can_listen_on_a_name_with_one_free_address_passes() -> None:
    check_can_listen("localhost:0", purpose="tests")


def test_health_follows_set_serving() -> None:
    async def run() -> None:
        async with serving(_echo, translate=lambda _error: None) as (server, channel):
            assert [await _health(channel, name) for name in ("", SERVICE)] == [NOT_SERVING] * 2
            await server.set_serving(True)
            assert [await _health(channel, name) for name in ("", SERVICE)] == [SERVING] * 2
            await server.set_serving(False)
            assert await _health(channel, "") == NOT_SERVING

    asyncio.run(run())


def test_health_of_an_unknown_service_is_not_found() -> None:
    async def run() -> None:
        async with serving(_echo, translate=lambda _error: None) as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await _health(channel, "nobody")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    asyncio.run(run())


def test_health_watch_tells_a_drain_before_the_end() -> None:
    async def run() -> None:
        async with serving(_echo, translate=lambda _error: None) as (server, channel):
            await server.set_serving(True)
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest(service=""))
            assert (await watch.read()).status == SERVING
            stopping = asyncio.create_task(server.stop(grace_s=5))
            assert (await watch.read()).status == NOT_SERVING
            watch.cancel()
            await stopping

    asyncio.run(run())


def test_reflection_lists_every_service() -> None:
    async def run() -> list[str]:
        async with serving(_echo, translate=lambda _error: None) as (_, channel):
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
            responses = [response async for response in stub.ServerReflectionInfo(iter(requests))]
        return [service.name for service in responses[0].list_services_response.service]

    names = asyncio.run(run())
    assert sorted(names) == ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", SERVICE]


def test_stop_lets_a_running_stream_end_and_refuses_new_calls() -> None:
    async def run() -> None:
        entered, go_on = asyncio.Event(), asyncio.Event()

        async def wait(prompt: str, _context: Context) -> str:
            entered.set()
            await go_on.wait()
            return prompt

        async with serving(wait, translate=lambda _error: None) as (server, channel):
            running = asyncio.create_task(call_unary_stream("UnaryWriter")(channel, GOOD))
            await entered.wait()
            stopping = asyncio.create_task(server.stop(grace_s=30))
            await _until_refused(channel)
            go_on.set()
            assert await running == ["first", "hi"]
            await stopping
            await server.wait_closed()

    asyncio.run(run())


async def _until_refused(channel: grpc.aio.Channel) -> None:
    """Return at the first call that the server turns away."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    while await _code(stub.Check(health_pb2.HealthCheckRequest(), timeout=5)) is not grpc.StatusCode.UNAVAILABLE:
        pass


async def _code(call: Any) -> grpc.StatusCode:
    code: grpc.StatusCode = await call.code()
    return code


def test_stop_after_its_grace_cancels_what_still_runs() -> None:
    async def run() -> None:
        entered = asyncio.Event()

        async def wait(_prompt: str, _context: Context) -> str:
            entered.set()
            await asyncio.Event().wait()
            return ""

        async with serving(wait, translate=lambda _error: None) as (server, channel):
            running = asyncio.create_task(call_unary_unary(channel, GOOD))
            await entered.wait()
            await server.stop(grace_s=0.05)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running
        assert caught.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}

    asyncio.run(run())


PROGRAM = """
import asyncio, sys
from libs.rpc.address import ListenError
from libs.rpc.channel import open_channel
from libs.rpc.server import start_server

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60
    options = dict(services=[], translate=lambda error: None, max_request_bytes=1)
    server = await start_server(address="127.0.0.1:0", **options)
    try:
        await start_server(address=f"127.0.0.1:{server.port}", **options)
    except ListenError:
        print("refused")
    async with open_channel(f"127.0.0.1:{server.port}", max_message_bytes=1000) as channel:
        await channel.channel_ready()
    await server.stop(grace_s=1)

asyncio.run(main(), debug=True)
"""


def test_process_that_is_refused_a_port_and_stops_prints_nothing_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("refused\n", "")
