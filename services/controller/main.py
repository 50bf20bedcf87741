"""The controller process: `python -m services.controller.main --config FILE`."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from random import SystemRandom

import structlog
from prometheus_client import CollectorRegistry
from twinlane.controller.v1 import admin_pb2_grpc, engines_pb2_grpc, registry_pb2_grpc

from libs.config.load import ConfigError
from libs.core.clock import Clock, SystemClock
from libs.core.ids import IdSource
from libs.rpc.address import ListenError
from libs.rpc.server import Service, start_server
from libs.telemetry.logs import configure_logs
from libs.telemetry.metrics import MetricsServer, serve_metrics
from libs.telemetry.tracing import Tracing, start_tracing
from services.controller.actuate import Actuator
from services.controller.api.admin_service import AdminParts, AdminService, Identity
from services.controller.api.registry_service import RegistryService
from services.controller.api.status import translate
from services.controller.api.table_service import EngineTableService
from services.controller.config import ControllerConfig, load_config
from services.controller.core.memory import EngineMemory
from services.controller.core.record import DecisionRecord
from services.controller.core.step import resume
from services.controller.dispatch import Dispatch
from services.controller.journal.store import JournalOpenError, JournalStore
from services.controller.journal.writer import Journal, JournalEvents
from services.controller.loop import ControlLoop, LoopOptions, LoopPorts
from services.controller.measures import ControllerMetrics
from services.controller.observe import Observer, ObserverOptions
from services.controller.registry import Registry
from services.controller.running import Parts, RunningController
from services.controller.standing import StandingOrders
from services.controller.table import EngineTable

_log = structlog.get_logger(__name__)

EXIT_UNUSABLE = 2


@dataclass(frozen=True, kw_only=True)
class _Base:
    """What every part of this start shares."""

    config: ControllerConfig
    clock: Clock
    ids: IdSource
    term: int
    store: JournalStore
    metrics: ControllerMetrics
    tracing: Tracing


async def start(config: ControllerConfig, *, clock: Clock | None = None) -> RunningController:
    """Start a controller. Raises JournalOpenError, ListenError; then nothing is left running."""
    clock = SystemClock() if clock is None else clock
    collectors = CollectorRegistry()
    base = _begin(config, clock=clock, collectors=collectors)
    parts = _assemble(base)
    parts.journal.start()
    endpoint: MetricsServer | None = None
    try:
        if config.metrics_address is not None:
            endpoint = serve_metrics(config.metrics_address, collectors)
        server = await start_server(
            services=_services(base, parts),
            address=config.address,
            translate=translate,
            max_request_bytes=config.max_request_bytes,
        )
    except ListenError:
        if endpoint is not None:
            endpoint.stop()
        await parts.journal.stop()
        base.tracing.stop()
        raise
    await server.set_serving(True)
    return RunningController(config=config, term=base.term, parts=parts, server=server, metrics=endpoint, tracing=base.tracing)


def _begin(config: ControllerConfig, *, clock: Clock, collectors: CollectorRegistry) -> _Base:
    store = JournalStore(config.journal.url)
    term = store.begin_term(controller_id=config.controller_id, settings=config.step_settings, now_s=clock.wall_s())
    return _Base(
        config=config,
        clock=clock,
        ids=IdSource(clock=clock, random=SystemRandom()),
        term=term,
        store=store,
        metrics=ControllerMetrics(collectors),
        tracing=start_tracing(service="controller", otlp_endpoint=config.tracing.otlp_endpoint),
    )


def _assemble(base: _Base) -> Parts:
    config, clock = base.config, base.clock
    events = JournalEvents(failed=base.metrics.journal_failures.inc, dropped=base.metrics.journal_dropped.inc)
    journal = Journal(store=base.store, clock=clock, keep_days=config.journal.keep_days, events=events)
    options = ObserverOptions(min_interval_ms=config.telemetry.min_interval_ms, max_message_bytes=config.max_request_bytes)
    observer = Observer(clock=clock, options=options)
    registry = Registry(clock=clock, lease_s=config.registry.lease_s)
    table = EngineTable(clock=clock, term=base.term, registry=registry, observer=observer)
    woken = asyncio.Event()
    orders = StandingOrders(
        clock=clock,
        journal=journal,
        pause=base.store.pause(),
        overrides=base.store.overrides(),
        on_change=woken.set,
    )
    loop = _loop(base, table=table, orders=orders, dispatch=_dispatch(base, registry), journal=journal, woken=woken)
    return Parts(journal=journal, observer=observer, registry=registry, table=table, orders=orders, loop=loop)


def _dispatch(base: _Base, registry: Registry) -> Dispatch:
    actuator = Actuator(
        controller_epoch=base.term,
        lease_s=base.config.tuning.lease_s,
        max_message_bytes=base.config.max_request_bytes,
        tracing=base.tracing,
    )
    return Dispatch(registry=registry, actuator=actuator)


def _loop(
    base: _Base, *, table: EngineTable, orders: StandingOrders, dispatch: Dispatch, journal: Journal, woken: asyncio.Event
) -> ControlLoop:
    ports = LoopPorts(
        collect=table.readings,
        paused=lambda: orders.pause.paused,
        overrides=lambda: orders.overrides,
        carry_out=dispatch.carry_out,
        keep=_keeper(journal),
        report=base.metrics.tick,
    )
    return ControlLoop(
        clock=base.clock,
        ids=base.ids,
        options=LoopOptions(term=base.term, tick_s=base.config.loop.tick_s, settings=base.config.step_settings),
        ports=ports,
        woken=woken,
        state=resume(base.store.memories(), now_s=base.clock.monotonic_s()),
    )


def _keeper(journal: Journal) -> Callable[[tuple[DecisionRecord, ...], Mapping[str, EngineMemory]], None]:
    def keep(records: tuple[DecisionRecord, ...], memories: Mapping[str, EngineMemory]) -> None:
        journal.write(lambda store: store.add_decisions(records, memories))

    return keep


def _services(base: _Base, parts: Parts) -> tuple[Service, ...]:
    config = base.config
    table = EngineTableService(table=parts.table, load_interval_s=config.table.load_interval_ms / 1000, metrics=base.metrics)
    registry = RegistryService(registry=parts.registry, config=config.registry)
    admin = AdminService(_admin_parts(base, parts, table))
    return (
        Service(
            name="twinlane.controller.v1.RegistryService",
            add_to=lambda server: registry_pb2_grpc.add_RegistryServiceServicer_to_server(registry, server),
        ),
        Service(
            name="twinlane.controller.v1.EngineTableService",
            add_to=lambda server: engines_pb2_grpc.add_EngineTableServiceServicer_to_server(table, server),
        ),
        Service(
            name="twinlane.controller.v1.ControllerAdminService",
            add_to=lambda server: admin_pb2_grpc.add_ControllerAdminServiceServicer_to_server(admin, server),
        ),
    )


def _admin_parts(base: _Base, parts: Parts, table_service: EngineTableService) -> AdminParts:
    identity = Identity(
        controller_id=base.config.controller_id,
        version=version("twinlane"),
        term=base.term,
        slo_ms=base.config.slo.realtime_p99_ms,
    )
    return AdminParts(
        clock=base.clock,
        ids=base.ids,
        identity=identity,
        registry=parts.registry,
        table=parts.table,
        loop=parts.loop,
        orders=parts.orders,
        journal=parts.journal,
        router_ids=lambda: table_service.router_ids,
    )


async def serve(config: ControllerConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises what `start` raises."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    running = await start(config)
    _log.info("controller serves", address=running.address, epoch=running.controller_epoch)
    await stopping.wait()
    _log.info("controller stops")
    await running.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process and return its exit code: 0 after a clean stop, 2 where it cannot start as configured."""
    parser = argparse.ArgumentParser(prog="python -m services.controller.main", description="Twinlane controller")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="configuration file (TOML)")
    options = parser.parse_args(arguments)
    try:
        config = load_config(options.config)
        configure_logs(service="controller", level=config.log.level, log_format=config.log.format)
        asyncio.run(serve(config))
    except (ConfigError, ListenError, JournalOpenError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
