"""A part of the mesh dies: callers get clean outcomes, nobody hangs, and the mesh recovers by itself."""

import asyncio
from collections import Counter

import grpc
from twinlane.common.v1 import engine_pb2
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc

from bench.mesh import Mesh, connect, eventually
from tests.integration.faults.calls import (
    FINISHED,
    RECOVERY_LIMIT_S,
    complete,
    long_request,
    read_to_end,
    wait_answering,
)

_STREAMS = 50
_STREAM_TOKENS = 600
# Reasons that tell a caller what happened; anything else would be noise from the transport.
_CLEAN = {FINISHED, "ENGINE_LOST", "NO_ENGINE", "DRAINING"}
_CALLS_WITHOUT_CONTROLLER = 20


def test_engine_killed_during_50_streams_gives_50_clean_outcomes_and_recovers(mesh: Mesh) -> None:
    async def scenario() -> Counter[str]:
        await wait_answering(mesh)
        async with connect(mesh.router) as channel:
            streams = [asyncio.create_task(read_to_end(channel, long_request(_STREAM_TOKENS))) for _ in range(_STREAMS)]
            await _until_running(mesh)
            mesh.part("realtime-1").kill()
            ends = await asyncio.gather(*streams)
        await wait_answering(mesh)
        return Counter(end.reason for end in ends)

    outcomes = asyncio.run(scenario())
    assert outcomes.total() == _STREAMS
    assert set(outcomes) <= _CLEAN, outcomes
    assert outcomes["ENGINE_LOST"] > 0, outcomes


def test_batch_engine_killed_realtime_calls_undisturbed(mesh: Mesh) -> None:
    async def scenario() -> list[str]:
        await wait_answering(mesh)
        mesh.part("batch-1").kill()
        async with connect(mesh.router) as channel:
            answers = [await complete(channel) for _ in range(_CALLS_WITHOUT_CONTROLLER)]
        return [answer.engine_id for answer in answers]

    assert set(asyncio.run(scenario())) == {"realtime-1"}


def test_controller_killed_callers_undisturbed_and_status_recovers(mesh: Mesh) -> None:
    async def scenario() -> int:
        await wait_answering(mesh)
        before = mesh.part("controller")
        before.kill()
        async with connect(mesh.router) as channel:
            answers = [await complete(channel) for _ in range(_CALLS_WITHOUT_CONTROLLER)]
        await _until_controller_sees(mesh, {"realtime-1", "batch-1"})
        assert mesh.part("controller").pid != before.pid
        return len(answers)

    assert asyncio.run(scenario()) == _CALLS_WITHOUT_CONTROLLER


def test_router_killed_client_recovers_on_the_same_channel(mesh: Mesh) -> None:
    async def scenario() -> str:
        await wait_answering(mesh)
        async with connect(mesh.router) as channel:
            await complete(channel)
            mesh.part("router").kill()
            await eventually(lambda: _fails(channel), bool, limit_s=RECOVERY_LIMIT_S)
            answer = await eventually(
                lambda: complete(channel), lambda answer: bool(answer.engine_id), limit_s=RECOVERY_LIMIT_S
            )
        return answer.engine_id

    assert asyncio.run(scenario()) == "realtime-1"


async def _fails(channel: grpc.aio.Channel) -> bool:
    try:
        await complete(channel)
    except grpc.aio.AioRpcError as error:
        return error.code() is grpc.StatusCode.UNAVAILABLE
    return False


async def _until_running(mesh: Mesh) -> None:
    """Return when the realtime engine generates for several streams."""

    def generating(status: admin_pb2.GetStatusResponse) -> bool:
        return any(
            sum(lane.running for lane in engine.snapshot.lanes) > 4
            for engine in status.engines
            if engine.descriptor.engine_id == "realtime-1"
        )

    async with connect(mesh.controller) as channel:
        await eventually(lambda: _status(channel), generating, limit_s=RECOVERY_LIMIT_S)


async def _until_controller_sees(mesh: Mesh, names: set[str]) -> None:
    def sees(status: admin_pb2.GetStatusResponse) -> bool:
        serving = {engine.descriptor.engine_id for engine in status.engines if engine.state == engine_pb2.ENGINE_STATE_SERVING}
        return names <= serving

    async with connect(mesh.controller) as channel:
        await eventually(lambda: _status(channel), sees, limit_s=RECOVERY_LIMIT_S)


async def _status(channel: grpc.aio.Channel) -> admin_pb2.GetStatusResponse:
    return await admin_pb2_grpc.ControllerAdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=2.0)
