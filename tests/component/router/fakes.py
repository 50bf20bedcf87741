"""Engines and a controller that a test plays, on loopback."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from twinlane.common.v1 import engine_pb2 as common_pb2
from twinlane.common.v1 import generation_pb2
from twinlane.controller.v1 import engines_pb2, engines_pb2_grpc
from twinlane.engine.v1 import engine_pb2, engine_pb2_grpc, telemetry_pb2
from twinlane.inference.v1 import inference_pb2_grpc

from libs.core.clock import Clock
from libs.rpc.server import RpcServer, Service, start_server
from services.router.config import (
    BatchConfig,
    ControllerConfig,
    FreshnessConfig,
    LaneConfig,
    LanesConfig,
    ModelConfig,
    RouterConfig,
    StaticEngineConfig,
)
from services.router.main import start
from services.router.running import RunningRouter

MODEL = "m"
PATIENCE_S = 10.0
STOP_REASON = generation_pb2.FINISH_REASON_STOP

Act = Callable[[engine_pb2.GenerateRequest | engine_pb2.CompleteRequest, Any], Awaitable[Any]]


async def wait_for(condition: Callable[[], bool]) -> None:
    """Return when a condition that other tasks bring about holds. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # the state of real sockets is watched, not an event of ours
            await asyncio.sleep(0.005)


class FakeEngine(engine_pb2_grpc.EngineServiceServicer):
    """Answers "hello world" unless `act` says otherwise, and remembers what it was asked."""

    def __init__(self, engine_id: str, *, pool: str, context: int) -> None:
        self.descriptor = common_pb2.EngineDescriptor(
            engine_id=engine_id,
            epoch=1,
            pool=pool,
            model=MODEL,
            limits=common_pb2.EngineLimits(max_context_tokens=context),
        )
        self.state = common_pb2.ENGINE_STATE_SERVING
        self.requests: list[Any] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.remaining_s: list[float | None] = []
        self.cancelled = asyncio.Event()
        self.act: Act | None = None
        self.finishes = True
        self.server: RpcServer | None = None

    async def start(self, address: str = "127.0.0.1:0") -> None:
        add = engine_pb2_grpc.add_EngineServiceServicer_to_server
        self.server = await start_server(
            services=[Service(name="twinlane.engine.v1.EngineService", add_to=lambda server: add(self, server))],
            address=address,
            translate=lambda _: None,
            max_request_bytes=1 << 20,
        )
        self.descriptor.address = f"127.0.0.1:{self.server.port}"

    async def kill(self) -> None:
        """Go away without a word, running calls and all."""
        if self.server is not None:
            await self.server.stop(grace_s=0)
            self.server = None

    def _note(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self.remaining_s.append(context.time_remaining())

    async def Complete(self, request: engine_pb2.CompleteRequest, context: Any) -> engine_pb2.CompleteResponse:
        self._note(request, context)
        try:
            if self.act is not None:
                await self.act(request, context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return engine_pb2.CompleteResponse(
            request_id=request.request_id,
            model=request.model,
            engine_id=self.descriptor.engine_id,
            text="hello world",
            token_ids=[1, 2],
            finish_reason=STOP_REASON,
            usage=generation_pb2.Usage(prompt_tokens=len(request.token_ids), completion_tokens=2),
        )

    async def Generate(self, request: engine_pb2.GenerateRequest, context: Any) -> None:  # type: ignore[override]
        self._note(request, context)
        try:
            await self._stream(request, context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _stream(self, request: engine_pb2.GenerateRequest, context: Any) -> None:
        started = engine_pb2.Started(
            request_id=request.request_id, engine_id=self.descriptor.engine_id, prompt_tokens=len(request.token_ids)
        )
        if self.act is None:
            await context.write(engine_pb2.GenerateResponse(started=started))
            for number, word in enumerate(("hello", " world")):
                delta = engine_pb2.Delta(text=word, token_ids=[number])
                await context.write(engine_pb2.GenerateResponse(delta=delta))
        else:
            await self.act(request, context)
        if self.finishes:
            await context.write(engine_pb2.GenerateResponse(finished=engine_pb2.Finished(finish_reason=STOP_REASON)))

    async def GetEngine(self, request: engine_pb2.GetEngineRequest, context: Any) -> engine_pb2.GetEngineResponse:
        return engine_pb2.GetEngineResponse(descriptor=self.descriptor, state=self.state)


class FakeController(engines_pb2_grpc.EngineTableServiceServicer):
    """Streams a table whenever the test publishes one."""

    def __init__(self) -> None:
        self.version = 0
        self._table = engines_pb2.WatchEnginesResponse()
        self._changed = asyncio.Condition()
        self.server: RpcServer | None = None

    async def start(self, address: str = "127.0.0.1:0") -> None:
        add = engines_pb2_grpc.add_EngineTableServiceServicer_to_server
        self.server = await start_server(
            services=[Service(name="twinlane.controller.v1.EngineTableService", add_to=lambda server: add(self, server))],
            address=address,
            translate=lambda _: None,
            max_request_bytes=1 << 20,
        )

    @property
    def address(self) -> str:
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    async def kill(self) -> None:
        if self.server is not None:
            await self.server.stop(grace_s=0)
            self.server = None

    async def publish(self, *engines: FakeEngine, backlogs: dict[str, int] | None = None) -> None:
        """Stream the engines as they are now, with a fresh reading each."""
        self.version += 1
        table = engines_pb2.WatchEnginesResponse(controller_epoch=1, version=self.version)
        for engine in engines:
            row = table.engines.add(descriptor=engine.descriptor, state=engine.state)
            waiting = (backlogs or {}).get(engine.descriptor.engine_id, 0)
            row.snapshot.sequence = self.version
            row.snapshot.lanes.append(telemetry_pb2.LaneSnapshot(waiting_prompt_tokens=waiting))
        async with self._changed:
            self._table = table
            self._changed.notify_all()

    async def WatchEngines(
        self, request: engines_pb2.WatchEnginesRequest, context: Any
    ) -> AsyncIterator[engines_pb2.WatchEnginesResponse]:
        sent = -1
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda sent=sent: self._table.version != sent)  # type: ignore[misc]
                table = self._table
            sent = table.version
            yield table


class Mesh:
    """One router between a controller and engines that the test plays."""

    def __init__(self, controller: FakeController, router: RunningRouter) -> None:
        self.controller = controller
        self.router = router
        self.channel = grpc.aio.insecure_channel(router.address)
        self.stub: Any = inference_pb2_grpc.InferenceServiceStub(self.channel)  # type: ignore[no-untyped-call,unused-ignore]

    async def publish(self, *engines: FakeEngine, backlogs: dict[str, int] | None = None) -> None:
        """Let the router know these engines; returns when it does."""
        await self.controller.publish(*engines, backlogs=backlogs)
        await wait_for(lambda: self.router.table.version == self.controller.version)


def router_config(
    controller: str | None,
    *,
    static: tuple[StaticEngineConfig, ...] = (),
    grace_s: float = 5.0,
    jobs: BatchConfig | None = None,
) -> RouterConfig:
    """Return a configuration for a router on a free port."""
    return RouterConfig(
        service="router",
        router_id="router-1",
        address="127.0.0.1:0",
        model=ModelConfig(name=MODEL, tokenizer="sim"),
        max_request_bytes=64 * 1024,
        drain_grace_s=grace_s,
        lanes=LanesConfig(realtime=LaneConfig(pools=("realtime", "batch"), default_deadline_s=20.0)),
        controller=ControllerConfig(address=controller),
        static_engines=static,
        batch=jobs,
        freshness=FreshnessConfig(suspect_s=0.5),
    )


@asynccontextmanager
async def open_mesh(*engines: FakeEngine, clock: Clock | None = None, jobs: BatchConfig | None = None) -> AsyncIterator[Mesh]:
    """Start everything, with these engines in the table; end everything and check that no lease is left."""
    controller = FakeController()
    await controller.start()
    for engine in engines:
        await engine.start()
    router = await start(router_config(controller.address, jobs=jobs), clock=clock)
    mesh = Mesh(controller, router)
    try:
        await mesh.publish(*engines)
        yield mesh
        await wait_for(lambda: all(slot.in_flight == 0 for slot in router.table.slots))
        router.table.check_integrity()
    finally:
        await mesh.channel.close()
        await router.stop()
        await controller.kill()
        for engine in engines:
            await engine.kill()


def realtime(name: str = "rt-1", *, context: int = 512) -> FakeEngine:
    """Return an engine of the realtime pool."""
    return FakeEngine(name, pool="realtime", context=context)


def batch(name: str = "b-1", *, context: int = 4096) -> FakeEngine:
    """Return an engine of the batch pool."""
    return FakeEngine(name, pool="batch", context=context)
