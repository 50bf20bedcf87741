"""The life of a started router: serve, drain, stop."""

import asyncio
from dataclasses import dataclass

import structlog

from libs.rpc.address import split_address
from libs.rpc.server import RpcServer
from libs.telemetry.metrics import MetricsServer
from libs.telemetry.tracing import Tracing
from services.router.batch.lane import BatchLane
from services.router.config import RouterConfig
from services.router.engines.feed import TableFeed
from services.router.engines.table import EngineTable
from services.router.flow.door import Door

_log = structlog.get_logger(__name__)

# For answers that are complete and on their way out.
_LAST_BYTES_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a router consists of; `lane` and `metrics` are None where not configured."""

    config: RouterConfig
    table: EngineTable
    feed: TableFeed
    door: Door
    lane: BatchLane | None
    tracing: Tracing
    server: RpcServer
    metrics: MetricsServer | None


class RunningRouter:
    """A router that listens and keeps its engine table."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._feed = asyncio.create_task(parts.feed.run(), name="engine table")
        self._feed.add_done_callback(_log_end)
        if parts.lane is not None:
            parts.lane.start()

    @property
    def address(self) -> str:
        """host:port that it listens on."""
        return f"{split_address(self._parts.config.address)[0]}:{self._parts.server.port}"

    @property
    def metrics_port(self) -> int | None:
        """Port of the metrics endpoint, None where there is none."""
        return None if self._parts.metrics is None else self._parts.metrics.port

    @property
    def table(self) -> EngineTable:
        """The engine table."""
        return self._parts.table

    async def stop(self) -> None:
        """Refuse new calls, let running ones end for up to drain_grace_s, then stop.

        The port stays open meanwhile, so that new calls hear why they are refused.
        """
        parts = self._parts
        parts.door.close()
        await parts.server.set_serving(False)
        if parts.lane is not None:
            await parts.lane.stop()
        await parts.door.wait_empty(limit_s=parts.config.drain_grace_s)
        await parts.server.stop(grace_s=_LAST_BYTES_S)
        self._feed.cancel()
        await asyncio.gather(self._feed, return_exceptions=True)
        await parts.table.close()
        await asyncio.to_thread(parts.tracing.stop)
        if parts.metrics is not None:
            await asyncio.to_thread(parts.metrics.stop)


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("the engine table is kept no more", exc_info=task.exception())
