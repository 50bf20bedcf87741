"""`twinlane up`: the whole mesh on this machine."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.errors import CliError
from cli.job.command import DEFAULT_TICKETS_PER_S, make_loads, run_job
from cli.job.report import report
from cli.mesh.configs import write_configs
from cli.mesh.model import MODEL_NAME, prepare_model
from cli.mesh.plan import EngineKind, MeshPlan, Ports, make_plan, ports_from
from cli.mesh.ports import free_ports, require_free
from cli.mesh.readiness import wait_table
from cli.mesh.supervisor import Supervisor
from libs.core.clock import SystemClock

_HOST = "127.0.0.1"
_PORT_BASE = 50051
_METRICS_PORT_BASE = 9464
_MAX_PORT_BASE = 65_500
# Simulated engines answer within milliseconds: the tickets are through in a few seconds.
_SIM_TICKETS_PER_S = 60.0
_TABLE_LIMIT_S = 15.0
_PROGRESS_INTERVAL_S = 0.2


def up(
    engine: Annotated[
        EngineKind, typer.Option(help="Backend of the engines: the real model, or a simulation.")
    ] = EngineKind.VLLM,
    job: Annotated[bool, typer.Option("--job", help="Run the main job, then go on serving.")] = False,
    exit_after_job: Annotated[bool, typer.Option("--exit-after-job", help="Stop when the job is done.")] = False,
    port_base: Annotated[
        int, typer.Option(min=0, max=_MAX_PORT_BASE, help="Router's port; the others follow. 0 takes free ports for all.")
    ] = _PORT_BASE,
    metrics_port_base: Annotated[int, typer.Option(min=1, max=_MAX_PORT_BASE)] = _METRICS_PORT_BASE,
    data: Annotated[Path, typer.Option(help="Folder of everything that is written.")] = Path("var"),
) -> None:
    """Start router, a realtime and a batch engine and the controller; Ctrl-C stops them all."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    plan = _make_plan(engine, port_base, metrics_port_base, data.resolve())
    require_free(plan.services)
    prepare_model(plan.backend, plan.model_folder, console)
    write_configs(plan)
    asyncio.run(_run(plan, console, job=job or exit_after_job, stay=not exit_after_job))


def _make_plan(engine: EngineKind, port_base: int, metrics_port_base: int, data: Path) -> MeshPlan:
    ports: Ports = free_ports(_HOST) if port_base == 0 else ports_from(port_base, metrics_port_base)
    return make_plan(
        backend=engine,
        host=_HOST,
        ports=ports,
        cores=sorted(os.sched_getaffinity(0)),
        data=data,
        model_folder=data / "models" / MODEL_NAME,
    )


async def _run(plan: MeshPlan, console: Console, *, job: bool, stay: bool) -> None:
    """Serve until a signal comes or the work is done. Raises CliError where the mesh does not start."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(plan, say=console.print)
    work = asyncio.create_task(_serve(plan, supervisor, console, job=job, stay=stay))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
    finally:
        for task in (work, stopped):
            task.cancel()
        await asyncio.gather(work, stopped, return_exceptions=True)
        console.print("stopping")
        await supervisor.stop()


async def _serve(plan: MeshPlan, supervisor: Supervisor, console: Console, *, job: bool, stay: bool) -> None:
    await _start(plan, supervisor, console)
    watch = asyncio.create_task(supervisor.watch())
    try:
        if job:
            await _run_job(plan, console)
        if stay:
            console.print(_serving_text(plan))
            await watch
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _start(plan: MeshPlan, supervisor: Supervisor, console: Console) -> None:
    with console.status("starting") as line:

        async def show() -> None:
            while True:
                await asyncio.sleep(_PROGRESS_INTERVAL_S)
                line.update("waiting for " + ", ".join(f"{name} ({phase})" for name, phase in supervisor.progress.items()))

        shown = asyncio.create_task(show())
        try:
            await supervisor.start()
            async with asyncio.timeout(_TABLE_LIMIT_S):
                await wait_table(plan.router.address, len(plan.engines))
        except TimeoutError:
            raise CliError(
                f"the router knows too few engines after {_TABLE_LIMIT_S:.0f} s; log: {plan.router.log_file}"
            ) from None
        finally:
            shown.cancel()
            await asyncio.gather(shown, return_exceptions=True)


async def _run_job(plan: MeshPlan, console: Console) -> None:
    rate = _SIM_TICKETS_PER_S if plan.backend is EngineKind.SIM else DEFAULT_TICKETS_PER_S
    outcome = await run_job(
        router=plan.router.address,
        controller=plan.controller.address,
        loads=make_loads(tickets_per_s=rate, max_tickets=None),
        console=console,
        clock=SystemClock(),
    )
    console.print(report(outcome.result, outcome.status, outcome.changes))


def _serving_text(plan: MeshPlan) -> str:
    request = '{"chat":{"messages":[{"role":"user","content":"What is the capital of France?"}]}}'
    grpcurl = Path(sys.executable).with_name("grpcurl")
    program = str(grpcurl) if grpcurl.exists() else "grpcurl"
    return (
        "The mesh serves. Try:\n"
        f"  {program} -plaintext -d '{request}' {plan.router.address} twinlane.inference.v1.InferenceService/Complete\n"
        f"  twinlane top --router {plan.router.address} --controller {plan.controller.address}\n"
        "Ctrl-C stops it."
    )
