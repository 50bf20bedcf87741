"""An engine that says what a test tells it to, and records what the controller asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from twinlane.common.v1 import engine_pb2, lane_pb2
from twinlane.controller.v1 import registry_pb2, registry_pb2_grpc
from twinlane.engine.v1 import telemetry_pb2, telemetry_pb2_grpc, tuning_pb2, tuning_pb2_grpc

from libs.rpc.fault import Fault, FaultError
from libs.rpc.server import RpcServer, Service, start_server

MAX_ACTIVE_SEQUENCES = 64
MAX_BATCHED_TOKENS = 2048
_SNAPSHOT_INTERVAL_S = 0.02


class FakeEngine(telemetry_pb2_grpc.TelemetryServiceServicer, tuning_pb2_grpc.TuningServiceServicer):
    """Serves TelemetryService and TuningService; `updates` holds every UpdateTuning call in order."""

    def __init__(self, *, engine_id: str, epoch: int, pool: str) -> None:
        self.engine_id = engine_id
        self.epoch = epoch
        self.pool = pool
        self.state = engine_pb2.ENGINE_STATE_SERVING
        self.max_active_sequences = 16
        self.max_batched_tokens = 512
        self.running = 16
        self.kv_usage_ratio = 0.2
        self.p99_ms: float | None = None
        self.updates: list[tuning_pb2.UpdateTuningRequest] = []
        self.refusal: Fault | None = None
        self.updated = asyncio.Event()
        self.watches = 0
        self.is_silent = False
        self._server: RpcServer | None = None
        self._sequence = 0

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.port}"

    @property
    def descriptor(self) -> engine_pb2.EngineDescriptor:
        return engine_pb2.EngineDescriptor(
            engine_id=self.engine_id,
            epoch=self.epoch,
            address=self.address,
            pool=self.pool,
            model="m",
            backend="sim",
            profile="batch",
            limits=engine_pb2.EngineLimits(
                max_context_tokens=4096,
                max_active_sequences=MAX_ACTIVE_SEQUENCES,
                max_batched_tokens=MAX_BATCHED_TOKENS,
                block_size_tokens=32,
                kv_blocks=1000,
            ),
        )

    async def start(self, address: str = "127.0.0.1:0") -> None:
        self._server = await start_server(
            services=[
                Service(
                    name="twinlane.engine.v1.TelemetryService",
                    add_to=lambda server: telemetry_pb2_grpc.add_TelemetryServiceServicer_to_server(self, server),
                ),
                Service(
                    name="twinlane.engine.v1.TuningService",
                    add_to=lambda server: tuning_pb2_grpc.add_TuningServiceServicer_to_server(self, server),
                ),
            ],
            address=address,
            translate=lambda _error: None,
            max_request_bytes=65_536,
        )

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.stop(grace_s=0)

    def register_request(self) -> registry_pb2.RegisterRequest:
        return registry_pb2.RegisterRequest(descriptor=self.descriptor, state=self.state)

    def snapshot(self) -> telemetry_pb2.EngineSnapshot:
        self._sequence += 1
        snapshot = telemetry_pb2.EngineSnapshot(
            engine_id=self.engine_id, epoch=self.epoch, sequence=self._sequence, state=self.state
        )
        snapshot.tuning.max_active_sequences = self.max_active_sequences
        snapshot.tuning.max_batched_tokens = self.max_batched_tokens
        snapshot.kv_usage_ratio = self.kv_usage_ratio
        realtime = snapshot.lanes.add(lane=lane_pb2.LANE_REALTIME)
        snapshot.lanes.add(lane=lane_pb2.LANE_BATCH, running=self.running)
        if self.p99_ms is not None:
            realtime.total.CopyFrom(telemetry_pb2.LatencySummary(count=100, p50_ms=1, p95_ms=2, p99_ms=self.p99_ms))
        return snapshot

    async def Watch(self, _request: Any, context: Any) -> None:  # type: ignore[override]
        self.watches += 1
        while not self.is_silent:
            await context.write(telemetry_pb2.WatchResponse(snapshot=self.snapshot()))
            await asyncio.sleep(_SNAPSHOT_INTERVAL_S)
        await asyncio.Event().wait()

    async def UpdateTuning(self, request: tuning_pb2.UpdateTuningRequest, _context: Any) -> tuning_pb2.UpdateTuningResponse:
        if self.refusal is not None:
            raise FaultError(self.refusal)
        self.updates.append(request)
        for path in request.update_mask.paths:
            setattr(self, path, getattr(request.tuning, path))
        self.updated.set()
        return tuning_pb2.UpdateTuningResponse(applied=self.snapshot().tuning)

    async def GetTuning(self, _request: Any, _context: Any) -> Any:
        raise NotImplementedError

    async def Drain(self, _request: Any, _context: Any) -> Any:
        raise NotImplementedError

    async def Undrain(self, _request: Any, _context: Any) -> Any:
        raise NotImplementedError


@asynccontextmanager
async def running_engine(*, engine_id: str = "batch-1", epoch: int = 1, pool: str = "batch") -> AsyncIterator[FakeEngine]:
    """Serve a fake engine on a free port."""
    engine = FakeEngine(engine_id=engine_id, epoch=epoch, pool=pool)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@asynccontextmanager
async def joined(
    channel: grpc.aio.Channel, *, engine_id: str = "batch-1", epoch: int = 1, pool: str = "batch", **values: Any
) -> AsyncIterator[FakeEngine]:
    """Serve a fake engine that keeps itself registered, as a real one does; its first registration has been answered.

    `values` are set on the engine before that.
    """
    async with running_engine(engine_id=engine_id, epoch=epoch, pool=pool) as engine:
        for name, value in values.items():
            setattr(engine, name, value)
        stub = registry_pb2_grpc.RegistryServiceStub(channel)
        await stub.Register(engine.register_request())
        renewals = asyncio.create_task(_renew(stub, engine))
        try:
            yield engine
        finally:
            renewals.cancel()
            await asyncio.gather(renewals, return_exceptions=True)


async def _renew(stub: registry_pb2_grpc.RegistryServiceAsyncStub, engine: FakeEngine) -> None:
    while True:
        await asyncio.sleep(0.1)
        await stub.Register(engine.register_request())
