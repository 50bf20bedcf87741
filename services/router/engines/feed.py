"""Keeps the engine table: from the controller's stream, from the static list while there never was one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError
from twinlane.common.v1 import engine_pb2 as common_pb2
from twinlane.controller.v1 import engines_pb2, engines_pb2_grpc
from twinlane.engine.v1 import engine_pb2

from libs.rpc.channel import open_channel
from services.router.config import StaticEngineConfig
from services.router.domain import EngineState, TableSource
from services.router.engines.client import EngineClient
from services.router.engines.table import EngineTable, OpenClient

_log = structlog.get_logger(__name__)

_BACKOFF_FIRST_S = 0.1
_BACKOFF_MAX_S = 1.0
# The controller sends at least each load interval; a stream silent for this long is dead.
_SILENCE_MAX_S = 5.0
_PROBE_INTERVAL_S = 1.0
_PROBE_TIMEOUT_S = 1.0
_MAX_TABLE_BYTES = 64 * 1024 * 1024
_GET_ENGINE = engine_pb2.GetEngineRequest().SerializeToString()


class TableFeed:
    """Runs until cancelled. One task for the controller, one for the static list."""

    def __init__(
        self,
        table: EngineTable,
        *,
        router_id: str,
        controller_address: str | None,
        static_engines: Sequence[StaticEngineConfig],
        model: str,
        open_client: OpenClient,
    ) -> None:
        self._table = table
        self._router_id = router_id
        self._controller_address = controller_address
        self._static = static_engines
        self._model = model
        self._open_client = open_client

    async def run(self) -> None:
        """Keep the table."""
        async with asyncio.TaskGroup() as tasks:
            if self._controller_address is not None:
                tasks.create_task(self._watch(self._controller_address), name="table-controller")
            if self._static:
                tasks.create_task(self._probe(), name="table-static")

    async def _watch(self, address: str) -> None:
        channel = open_channel(address, max_message_bytes=_MAX_TABLE_BYTES)
        stub = engines_pb2_grpc.EngineTableServiceStub(channel)
        backoff_s = _BACKOFF_FIRST_S
        try:
            while True:
                try:
                    await self._follow(stub)
                    backoff_s = _BACKOFF_FIRST_S
                except (grpc.aio.AioRpcError, TimeoutError) as error:
                    _log_away(self._table.source, address, error)
                self._table.retain()
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, _BACKOFF_MAX_S)
        finally:
            await channel.close()

    async def _follow(self, stub: engines_pb2_grpc.EngineTableServiceStub) -> None:
        call: Any = stub.WatchEngines(engines_pb2.WatchEnginesRequest(router_id=self._router_id))
        try:
            while True:
                async with asyncio.timeout(_SILENCE_MAX_S):
                    message = await call.read()
                if not isinstance(message, engines_pb2.WatchEnginesResponse):
                    return
                if self._table.source is not TableSource.CONTROLLER:
                    _log.info("engine table comes from the controller", engines=len(message.engines))
                self._table.apply(message)
        finally:
            call.cancel()

    async def _probe(self) -> None:
        """While the controller has never spoken, ask the listed engines themselves."""
        clients = [self._open_client(engine.address) for engine in self._static]
        try:
            while True:
                if self._table.source is TableSource.STATIC:
                    asked = zip(self._static, clients, strict=True)
                    answers = await asyncio.gather(*(self._ask(engine, client) for engine, client in asked))
                    # The controller may have spoken meanwhile; then its word counts.
                    if self._table.source is TableSource.STATIC:
                        self._table.apply_static(answers)
                await asyncio.sleep(_PROBE_INTERVAL_S)
        finally:
            await asyncio.gather(*(client.close() for client in clients))

    async def _ask(self, engine: StaticEngineConfig, client: EngineClient) -> tuple[common_pb2.EngineDescriptor, EngineState]:
        try:
            raw = await client.get_engine(_GET_ENGINE, timeout=_PROBE_TIMEOUT_S)
            answer = engine_pb2.GetEngineResponse.FromString(raw)
        except (grpc.aio.AioRpcError, DecodeError):
            return self._configured(engine), EngineState.UNHEALTHY
        descriptor = answer.descriptor
        descriptor.engine_id, descriptor.address, descriptor.pool = engine.engine_id, engine.address, engine.pool
        return descriptor, EngineState(answer.state)

    def _configured(self, engine: StaticEngineConfig) -> common_pb2.EngineDescriptor:
        return common_pb2.EngineDescriptor(
            engine_id=engine.engine_id,
            address=engine.address,
            pool=engine.pool,
            model=self._model,
            limits=common_pb2.EngineLimits(max_context_tokens=engine.max_context_tokens),
        )


def _log_away(source: TableSource, address: str, error: Exception) -> None:
    """Say it once: when a stream breaks, not with each attempt."""
    if source is TableSource.CONTROLLER:
        reason = error.details() if isinstance(error, grpc.aio.AioRpcError) else "no message"
        _log.warning("the controller is away; the last engine table is kept", address=address, reason=reason)
