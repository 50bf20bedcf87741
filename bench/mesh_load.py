"""How much work the engines of a running mesh hold, read from the engines themselves."""

from twinlane.engine.v1 import telemetry_pb2, telemetry_pb2_grpc

from bench.mesh import Mesh, connect

_ENGINES = ("realtime-1", "batch-1")
_READ_TIMEOUT_S = 2.0


async def read_snapshot(address: str) -> telemetry_pb2.EngineSnapshot:
    """Return an engine's newest snapshot. Raises AioRpcError where it is away."""
    async with connect(address) as channel:
        call = telemetry_pb2_grpc.TelemetryServiceStub(channel).Watch(telemetry_pb2.WatchRequest(), timeout=_READ_TIMEOUT_S)
        async for response in call:
            call.cancel()
            return response.snapshot
        raise RuntimeError(f"{address}: the telemetry stream ended without a snapshot")


async def running_requests(mesh: Mesh) -> int:
    """Return how many requests wait or run on all engines together."""
    total = 0
    for name in _ENGINES:
        snapshot = await read_snapshot(mesh.part(name).address)
        total += sum(lane.waiting + lane.running for lane in snapshot.lanes)
    return total
