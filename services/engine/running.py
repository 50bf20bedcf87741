"""The life of a started engine: load, warm up, serve, drain, stop."""

import asyncio
from dataclasses import dataclass
from random import Random

import structlog

from libs.core.clock import Clock
from libs.rpc.address import split_address
from libs.rpc.server import RpcServer
from libs.telemetry.metrics import MetricsServer
from libs.telemetry.tracing import Tracing
from services.engine.backend.base import Backend
from services.engine.config import EngineConfig
from services.engine.domain import BackendLostError, EngineState
from services.engine.registration import Registration
from services.engine.serving.gauges import EngineGauges
from services.engine.serving.identity import IdentityCard
from services.engine.serving.ledger import Ledger
from services.engine.serving.life import Life
from services.engine.serving.telemetry import Telemetry
from services.engine.serving.tuning import TuningDesk
from services.engine.serving.warm_up import WarmUpPlan, warm_up
from services.engine.serving.watchdog import watch_progress

_log = structlog.get_logger(__name__)

# After the last answer only statuses and telemetry are under way.
_CLOSE_GRACE_S = 2.0
# Warm-up prompts are made up; always the same ones make starts comparable.
_WARM_UP_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Parts that live as long as the engine, apart from what listens."""

    config: EngineConfig
    clock: Clock
    card: IdentityCard
    life: Life
    ledger: Ledger
    backend: Backend
    desk: TuningDesk
    telemetry: Telemetry
    tracing: Tracing
    gauges: EngineGauges


@dataclass(frozen=True, kw_only=True)
class Outlets:
    """What others reach the engine by; None where not configured."""

    server: RpcServer
    metrics: MetricsServer | None
    registration: Registration | None


class RunningEngine:
    """An engine that listens. It loads and warms up in a task of its own; `wait_serving` tells the end of that."""

    def __init__(self, parts: Parts, outlets: Outlets) -> None:
        self._parts = parts
        self._outlets = outlets
        self._states: asyncio.Queue[EngineState] = asyncio.Queue()
        self._loaded = asyncio.Event()
        parts.life.subscribe(self._states.put_nowait)
        self._ready = asyncio.create_task(self._get_ready(), name="load and warm up")
        self._loss = asyncio.create_task(self._watch_loss(), name="loss of the core")
        self._tasks = (
            asyncio.create_task(self._show_health(), name="health"),
            asyncio.create_task(self._watch_progress(), name="progress"),
            asyncio.create_task(parts.gauges.keep_fresh(), name="gauges"),
        )
        if outlets.registration is not None:
            outlets.registration.start()

    @property
    def address(self) -> str:
        """host:port that it listens on."""
        return f"{split_address(self._parts.config.address)[0]}:{self._outlets.server.port}"

    @property
    def metrics_port(self) -> int | None:
        """Port of the metrics endpoint; None without one."""
        return None if self._outlets.metrics is None else self._outlets.metrics.port

    @property
    def state(self) -> EngineState:
        """State now."""
        return self._parts.life.state

    @property
    def backend(self) -> Backend:
        """What runs the model."""
        return self._parts.backend

    async def wait_serving(self) -> None:
        """Return once warmed up. Raises BackendStartError, BackendLostError."""
        await asyncio.shield(self._ready)

    async def wait_lost(self) -> BackendLostError:
        """Return when the core is lost; never while it lives."""
        return await asyncio.shield(self._loss)

    async def stop(self) -> None:
        """Leave the mesh, refuse new requests, finish running ones within the grace period, then end everything."""
        self._parts.life.learn(reason="the engine stops", draining=True)
        if self._outlets.registration is not None:
            await self._outlets.registration.stop()
        await self._drain()
        self._parts.telemetry.close()
        await self._outlets.server.stop(grace_s=_CLOSE_GRACE_S)
        await self._end_tasks()
        await self._parts.desk.stop()
        await self._parts.backend.stop()
        if self._outlets.metrics is not None:
            await asyncio.to_thread(self._outlets.metrics.stop)
        self._parts.tracing.stop()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._parts.config.drain_grace_s):
                await self._parts.ledger.wait_idle()
        except TimeoutError:
            _log.warning("drain grace is over", remaining_requests=self._parts.ledger.in_flight)

    async def _end_tasks(self) -> None:
        tasks = (self._ready, self._loss, *self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _get_ready(self) -> None:
        parts = self._parts
        limits = await parts.backend.start()
        parts.card.measured(limits)
        self._loaded.set()
        await parts.desk.restore()
        parts.life.learn(reason="the model is loaded", loaded=True)
        await warm_up(parts.backend, limits, _warm_up_plan(parts.config), Random(_WARM_UP_SEED))
        parts.life.learn(reason="warm-up is done", warmed=True)

    async def _watch_loss(self) -> BackendLostError:
        await self._loaded.wait()
        error = await self._parts.backend.wait_lost()
        _log.error("the backend's core is lost", error=str(error))
        self._parts.life.learn(reason=str(error), lost=True)
        return error

    async def _watch_progress(self) -> None:
        await self._loaded.wait()
        parts = self._parts
        await watch_progress(parts.backend, parts.ledger, parts.life, clock=parts.clock, stall_s=parts.config.health.stall_s)

    async def _show_health(self) -> None:
        """Keep gRPC health in step with the state, in order."""
        while True:
            state = await self._states.get()
            await self._outlets.server.set_serving(state is EngineState.SERVING)


def _warm_up_plan(config: EngineConfig) -> WarmUpPlan:
    keys = config.warm_up
    return WarmUpPlan(requests=keys.requests, tokens=keys.tokens, max_concurrency=keys.max_concurrency)
