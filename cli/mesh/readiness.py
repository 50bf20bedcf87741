"""Is a service ready? Asked by gRPC, as any other caller would."""

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from twinlane.common.v1 import engine_pb2
from twinlane.engine.v1 import engine_pb2 as engine_service_pb2
from twinlane.engine.v1 import engine_pb2_grpc
from twinlane.router.v1 import admin_pb2, admin_pb2_grpc

from cli.calls import channel_to
from cli.mesh.plan import ServiceKind, ServicePlan

_POLL_INTERVAL_S = 0.1
_CALL_TIMEOUT_S = 1.0


async def wait_serving(service: ServicePlan, progress: dict[str, str]) -> None:
    """Return when the service's health is SERVING; meanwhile `progress[name]` says what it is doing. Never gives up."""
    async with channel_to(service.address) as channel:
        while True:
            progress[service.name] = await _phase(channel, service.kind)
            if progress[service.name] == _SERVING:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)


async def wait_table(router_address: str, engine_count: int) -> None:
    """Return when the router knows `engine_count` serving engines. Never gives up."""
    async with channel_to(router_address) as channel:
        while True:
            if await _serving_engines(channel) >= engine_count:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)


_SERVING = "serving"
_ENGINE_PHASES = {
    engine_pb2.ENGINE_STATE_STARTING: "loading the model",
    engine_pb2.ENGINE_STATE_WARMING: "warming up",
}


async def _phase(channel: grpc.aio.Channel, kind: ServiceKind) -> str:
    try:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_CALL_TIMEOUT_S)
        if health.status == health_pb2.HealthCheckResponse.SERVING:
            return _SERVING
        return await _engine_phase(channel) if kind is ServiceKind.ENGINE else "starting"
    except grpc.aio.AioRpcError:
        return "starting"


async def _engine_phase(channel: grpc.aio.Channel) -> str:
    answer = await engine_pb2_grpc.EngineServiceStub(channel).GetEngine(
        engine_service_pb2.GetEngineRequest(), timeout=_CALL_TIMEOUT_S
    )
    return _ENGINE_PHASES.get(answer.state, engine_pb2.EngineState.Name(answer.state).removeprefix("ENGINE_STATE_").lower())


async def _serving_engines(channel: grpc.aio.Channel) -> int:
    try:
        status = await admin_pb2_grpc.RouterAdminServiceStub(channel).GetStatus(
            admin_pb2.GetStatusRequest(), timeout=_CALL_TIMEOUT_S
        )
    except grpc.aio.AioRpcError:
        return 0
    return sum(entry.state == engine_pb2.ENGINE_STATE_SERVING for entry in status.engines)
