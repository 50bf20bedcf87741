"""The engine process: `python -m services.engine.main --config FILE`."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry
from twinlane.common.v1 import engine_pb2 as common_engine_pb2
from twinlane.controller.v1 import registry_pb2
from twinlane.engine.v1 import engine_pb2_grpc, telemetry_pb2_grpc, tuning_pb2_grpc

from libs.config.load import ConfigError
from libs.core.clock import Clock, SystemClock
from libs.rpc.address import ListenError, split_address
from libs.rpc.server import RpcServer, Service, start_server
from libs.telemetry.logs import configure_logs
from libs.telemetry.metrics import MetricsServer, serve_metrics
from libs.telemetry.tracing import start_tracing
from services.engine.api.engine_service import EngineParts, EngineService
from services.engine.api.status import translate
from services.engine.api.telemetry_service import TelemetryService
from services.engine.api.tuning_service import TuningParts, TuningService
from services.engine.api.wire import descriptor_message
from services.engine.backend.choice import build_backend, configured_limits, vocabulary_size
from services.engine.config import EngineConfig, load_config
from services.engine.domain import BackendLostError, BackendStartError
from services.engine.policy.tuning import TuningBounds
from services.engine.registration import Registration
from services.engine.running import Outlets, Parts, RunningEngine
from services.engine.serving.gauges import EngineGauges
from services.engine.serving.identity import Identity, IdentityCard
from services.engine.serving.ledger import Ledger
from services.engine.serving.life import Life
from services.engine.serving.metrics import EngineMetrics
from services.engine.serving.telemetry import Sources, Telemetry
from services.engine.serving.tuning import TuningDesk

EXIT_UNUSABLE = 2
# EX_SOFTWARE of sysexits.h: a supervisor starts the engine again.
EXIT_LOST = 70


async def start(config: EngineConfig, *, clock: Clock | None = None) -> RunningEngine:
    """Start an engine; it listens when this returns, and goes on loading. Raises ListenError, BackendStartError; then nothing
    is left running."""
    collectors = CollectorRegistry()
    metrics = EngineMetrics(collectors)
    parts = _assemble(config, metrics, clock=SystemClock() if clock is None else clock)
    server = await _serve(parts, metrics)
    try:
        endpoint = None if config.metrics_address is None else serve_metrics(config.metrics_address, collectors)
    except ListenError:
        await server.stop(grace_s=0)
        raise
    return _run(parts, server, endpoint)


def _assemble(config: EngineConfig, metrics: EngineMetrics, *, clock: Clock) -> Parts:
    envelope = config.envelope
    backend = build_backend(config, clock=clock)
    life = Life()
    ledger = Ledger(clock=clock, metrics=metrics, latency_window_s=config.telemetry.latency_window_s)
    card = IdentityCard(_identity(config, epoch=int(clock.wall_s() * 1000)))
    bounds = TuningBounds(max_active_sequences=envelope.max_active_sequences, max_batched_tokens=envelope.max_batched_tokens)
    desk = TuningDesk(backend, configured=config.initial_tuning, bounds=bounds, clock=clock)
    sources = Sources(card=card, life=life, ledger=ledger, desk=desk, backend=backend)
    return Parts(
        config=config,
        clock=clock,
        card=card,
        life=life,
        ledger=ledger,
        backend=backend,
        desk=desk,
        telemetry=Telemetry(sources, clock=clock),
        tracing=start_tracing(service="engine", otlp_endpoint=config.tracing.otlp_endpoint),
        gauges=EngineGauges(metrics, sources),
    )


def _identity(config: EngineConfig, *, epoch: int) -> Identity:
    return Identity(
        engine_id=config.engine_id,
        epoch=epoch,
        address=config.advertise_address or config.address,
        pool=config.pool,
        model=config.model.name,
        backend=config.backend.kind,
        profile=config.profile,
        partition=config.owned,
        limits=configured_limits(config),
        version=version("twinlane"),
    )


async def _serve(parts: Parts, metrics: EngineMetrics) -> RpcServer:
    engine = EngineService(
        EngineParts(
            card=parts.card,
            life=parts.life,
            ledger=parts.ledger,
            backend=parts.backend,
            metrics=metrics,
            tracing=parts.tracing,
            clock=parts.clock,
            vocabulary_size=vocabulary_size(parts.config),
        )
    )
    telemetry = TelemetryService(parts.telemetry, clock=parts.clock)
    tuning = TuningService(TuningParts(desk=parts.desk, life=parts.life, ledger=parts.ledger))
    add_engine, add_telemetry, add_tuning = (
        engine_pb2_grpc.add_EngineServiceServicer_to_server,
        telemetry_pb2_grpc.add_TelemetryServiceServicer_to_server,
        tuning_pb2_grpc.add_TuningServiceServicer_to_server,
    )
    return await start_server(
        services=[
            Service(name="twinlane.engine.v1.EngineService", add_to=lambda server: add_engine(engine, server)),
            Service(name="twinlane.engine.v1.TelemetryService", add_to=lambda server: add_telemetry(telemetry, server)),
            Service(name="twinlane.engine.v1.TuningService", add_to=lambda server: add_tuning(tuning, server)),
        ],
        address=parts.config.address,
        translate=translate,
        max_request_bytes=parts.config.max_request_bytes,
    )


def _run(parts: Parts, server: RpcServer, endpoint: MetricsServer | None) -> RunningEngine:
    host = split_address(parts.config.address)[0]
    if parts.config.advertise_address is None:
        parts.card.listens_at(f"{host}:{server.port}")
    return RunningEngine(parts, Outlets(server=server, metrics=endpoint, registration=_registration(parts)))


def _registration(parts: Parts) -> Registration | None:
    if parts.config.controller.address is None:
        return None

    def announcement() -> registry_pb2.RegisterRequest:
        return registry_pb2.RegisterRequest(
            descriptor=descriptor_message(parts.card.identity),
            state=common_engine_pb2.EngineState.ValueType(parts.life.state),
        )

    registration = Registration(parts.config.controller.address, announcement)
    parts.life.subscribe(lambda _: registration.announce())
    return registration


async def run(config: EngineConfig) -> int:
    """Serve until SIGTERM or SIGINT (exit code 0) or until the core is lost (EXIT_LOST). Raises as `start` does."""
    engine = await start(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ends = (
        asyncio.create_task(_until_asked(stop), name="until asked to stop"),
        asyncio.create_task(_until_lost(engine), name="until lost"),
    )
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        await engine.stop()


async def _until_asked(stop: asyncio.Event) -> int:
    await stop.wait()
    return 0


async def _until_lost(engine: RunningEngine) -> int:
    """Raises BackendStartError where the engine never came up."""
    try:
        await engine.wait_serving()
        await engine.wait_lost()
    except BackendLostError:
        return EXIT_LOST
    return EXIT_LOST


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process and return its exit code: 0 after a clean stop, 2 when it cannot be started, 70 when the core is lost."""
    parser = argparse.ArgumentParser(prog="services.engine.main", description="One Twinlane engine.")
    parser.add_argument("--config", type=Path, required=True, help="TOML file; see deploy/config/engine-realtime.toml")
    file: Path = parser.parse_args(arguments).config
    try:
        config = load_config(file)
        configure_logs(service="engine", level=config.log.level, log_format=config.log.format)
        return asyncio.run(run(config))
    except (ConfigError, ListenError, BackendStartError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
