"""A controller in this process, for component tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc

from libs.config.load import build
from services.controller.config import ControllerConfig
from services.controller.main import start
from services.controller.running import RunningController

ResultT = TypeVar("ResultT")

# Far above what any of these tests needs; reached only where the awaited thing never comes.
PATIENCE_S = 20.0


def controller_config(folder: Path, **sections: Any) -> ControllerConfig:
    """A quick controller: short leases and ticks, no cooldown."""
    table: dict[str, object] = {
        "service": "controller",
        "controller_id": "controller-1",
        "address": "127.0.0.1:0",
        "drain_grace_s": 0.5,
        "journal": {"url": f"sqlite:///{folder}/controller.db"},
        "registry": {"lease_s": 0.6, "renew_interval_s": 0.1},
        "table": {"load_interval_ms": 50},
        "telemetry": {"min_interval_ms": 20},
        "loop": {"tick_s": 0.1},
        "law": {"cooldown_s": 0.0},
        **sections,
    }
    return build(table, ControllerConfig, file="test")


@asynccontextmanager
async def serving(config: ControllerConfig) -> AsyncIterator[tuple[RunningController, grpc.aio.Channel]]:
    """Run a controller and open a channel to it."""
    controller = await start(config)
    try:
        async with grpc.aio.insecure_channel(controller.address) as channel:
            yield controller, channel
    finally:
        await controller.stop()


async def eventually(read: Callable[[], Awaitable[ResultT]], holds: Callable[[ResultT], bool]) -> ResultT:
    """Read until it holds and return that reading."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            result = await read()
            if holds(result):
                return result
            await asyncio.sleep(0.02)


async def status(channel: grpc.aio.Channel) -> admin_pb2.GetStatusResponse:
    """Read the status."""
    return await admin_pb2_grpc.ControllerAdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest())


async def decisions(channel: grpc.aio.Channel, **wanted: Any) -> list[admin_pb2.Decision]:
    """Read one page of the journal."""
    stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
    return list((await stub.ListDecisions(admin_pb2.ListDecisionsRequest(**wanted))).decisions)
