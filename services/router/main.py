"""The router process: `python -m services.router.main --config FILE`."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from random import Random, SystemRandom

from prometheus_client import CollectorRegistry

from libs.config.load import ConfigError
from libs.core.clock import Clock, SystemClock
from libs.core.ids import IdSource
from libs.rpc.address import ListenError
from libs.rpc.server import RpcServer, Service, start_server
from libs.telemetry.logs import configure_logs
from libs.telemetry.metrics import serve_metrics
from libs.telemetry.tracing import start_tracing
from libs.tokens.tokenizer import TokenizerError, load_tokenizer
from services.router.api.admin_service import RouterAdminService, router_admin_service
from services.router.api.batch import BatchParts, BatchServicer, batch_service
from services.router.api.inference_service import inference_service
from services.router.api.status import to_outcome, translate
from services.router.batch.domain import StoreUnavailableError
from services.router.batch.lane import BatchLane, line_check
from services.router.config import RouterConfig, load_config
from services.router.engines.client import EngineClient
from services.router.engines.feed import TableFeed
from services.router.engines.table import EngineTable
from services.router.flow.calls import Calls
from services.router.flow.door import Door
from services.router.flow.identity import read_identity, to_mapping
from services.router.flow.measure import Measures
from services.router.running import Parts, RunningRouter

EXIT_UNUSABLE = 2


async def start(config: RouterConfig, *, clock: Clock | None = None) -> RunningRouter:
    """Start a router; it listens when this returns. Raises ListenError, TokenizerError,
    StoreUnavailableError; then nothing is left running."""
    clock = SystemClock() if clock is None else clock
    registry = CollectorRegistry()
    measures = Measures(registry, to_outcome=to_outcome)
    tokenizer = await asyncio.to_thread(load_tokenizer, config.model.tokenizer)
    table = EngineTable(
        clock=clock,
        open_client=lambda address: _open_client(address, config),
        fresh_s=config.freshness.fresh_s,
        suspect_s=config.freshness.suspect_s,
    )
    tracing = start_tracing(service="router", otlp_endpoint=config.tracing.otlp_endpoint)
    door = Door()
    # Not secret: ids only have to differ between processes.
    ids = IdSource(clock=clock, random=Random(SystemRandom().getrandbits(64)))
    calls = Calls(
        config,
        door=door,
        table=table,
        tokenizer=tokenizer,
        measures=measures,
        tracing=tracing,
        clock=clock,
        ids=ids,
        random=Random(SystemRandom().getrandbits(64)),
    )
    admin = RouterAdminService(
        router_id=config.router_id, version=version("twinlane"), table=table, measures=measures, clock=clock
    )
    lane = await _open_lane(config, calls, clock=clock, ids=ids)
    batch = [] if lane is None else [batch_service(_batch_servicer(lane, calls, clock=clock, ids=ids))]
    server = await _serve(config, [inference_service(calls), router_admin_service(admin), *batch])
    try:
        endpoint = None if config.metrics_address is None else serve_metrics(config.metrics_address, registry)
    except ListenError:
        await server.stop(grace_s=0)
        raise
    await server.set_serving(True)
    return RunningRouter(
        Parts(
            config=config,
            table=table,
            feed=_feed(config, table),
            door=door,
            lane=lane,
            tracing=tracing,
            server=server,
            metrics=endpoint,
        )
    )


def _open_client(address: str, config: RouterConfig) -> EngineClient:
    return EngineClient(address, max_message_bytes=config.max_request_bytes)


def _feed(config: RouterConfig, table: EngineTable) -> TableFeed:
    return TableFeed(
        table,
        router_id=config.router_id,
        controller_address=config.controller.address,
        static_engines=config.static_engines,
        model=config.model.name,
        open_client=lambda address: _open_client(address, config),
    )


async def _open_lane(config: RouterConfig, calls: Calls, *, clock: Clock, ids: IdSource) -> BatchLane | None:
    if config.batch is None:
        return None
    lane = BatchLane(
        config.batch,
        router_id=config.router_id,
        execute=calls.run_batch,
        translate=translate,
        clock=clock,
        ids=ids,
        random=Random(SystemRandom().getrandbits(64)),
    )
    await lane.open()
    return lane


def _batch_servicer(lane: BatchLane, calls: Calls, *, clock: Clock, ids: IdSource) -> BatchServicer:
    return BatchServicer(
        BatchParts(
            database=lane.database,
            store=lane.store,
            clock=clock,
            ids=ids,
            check=line_check(calls.check),
            tenant_of=lambda context: read_identity(to_mapping(context.invocation_metadata())).tenant,
            wake_runner=lane.runner.wake,
            stop_ended_jobs=lane.runner.stop_ended_jobs,
        )
    )


async def _serve(config: RouterConfig, services: Sequence[Service]) -> RpcServer:
    return await start_server(
        services=services,
        address=config.address,
        translate=translate,
        max_request_bytes=config.max_request_bytes,
    )


async def run(config: RouterConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises as `start` does."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    router = await start(config)
    try:
        await stop.wait()
    finally:
        await router.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process and return its exit code: 0 after a clean stop, 2 when it cannot be started."""
    parser = argparse.ArgumentParser(prog="services.router.main", description="One Twinlane router.")
    parser.add_argument("--config", type=Path, required=True, help="TOML file; see deploy/config/router.toml")
    file: Path = parser.parse_args(arguments).config
    try:
        config = load_config(file)
        configure_logs(service="router", level=config.log.level, log_format=config.log.format)
        asyncio.run(run(config))
    except (ConfigError, ListenError, TokenizerError, StoreUnavailableError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
