"""A controller that serves, and its end."""

import asyncio
from dataclasses import dataclass

from libs.rpc.server import RpcServer
from libs.telemetry.metrics import MetricsServer
from libs.telemetry.tracing import Tracing
from services.controller.config import ControllerConfig
from services.controller.journal.writer import Journal
from services.controller.loop import ControlLoop
from services.controller.observe import Observer
from services.controller.registry import Registry
from services.controller.standing import StandingOrders
from services.controller.table import EngineTable
from services.controller.tasks import end_tasks, start_task

# A term that follows another shows its table after this many renewal intervals, when every engine has had its turn.
SETTLE_RENEWALS = 2
_FIRST_TERM = 1


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Parts that live as long as the controller, apart from its servers."""

    journal: Journal
    observer: Observer
    registry: Registry
    table: EngineTable
    orders: StandingOrders
    loop: ControlLoop


class RunningController:
    """Runs the loop and the leases until stopped; `controller_epoch` is the term of this start."""

    def __init__(
        self,
        *,
        config: ControllerConfig,
        term: int,
        parts: Parts,
        server: RpcServer,
        metrics: MetricsServer | None,
        tracing: Tracing,
    ) -> None:
        self._config = config
        self.controller_epoch = term
        self._parts = parts
        self._server = server
        self._metrics = metrics
        self._tracing = tracing
        self._tasks = (
            start_task(parts.loop.run(), name="control loop"),
            start_task(parts.registry.run(), name="lease expiry"),
            start_task(_open_table(parts.table, after_s=_settle_s(config, term)), name="table opening"),
        )

    @property
    def address(self) -> str:
        """host:port that it listens on."""
        return f"{self._config.address.rpartition(':')[0]}:{self._server.port}"

    @property
    def metrics_port(self) -> int | None:
        """Port of the metrics endpoint; None without one."""
        return None if self._metrics is None else self._metrics.port

    async def stop(self) -> None:
        """End streams and calls, then the loop, then the journal. Engines keep their tuning until its lease ends."""
        self._parts.table.close()
        await self._server.stop(grace_s=self._config.drain_grace_s)
        await end_tasks(*self._tasks)
        await self._parts.observer.stop()
        await self._parts.journal.stop()
        if self._metrics is not None:
            self._metrics.stop()
        self._tracing.stop()


def _settle_s(config: ControllerConfig, term: int) -> float:
    return 0.0 if term == _FIRST_TERM else config.registry.renew_interval_s * SETTLE_RENEWALS


async def _open_table(table: EngineTable, *, after_s: float) -> None:
    await asyncio.sleep(after_s)
    table.open()
