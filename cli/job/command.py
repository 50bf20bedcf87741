"""`twinlane job`: the main job on a mesh that runs."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from twinlane.controller.v1 import admin_pb2

from cli.calls import DEFAULT_CONTROLLER, DEFAULT_ROUTER
from cli.job.controller import changes_since, read_status
from cli.job.inputs import categories, load_documents, load_tickets
from cli.job.report import report, to_json
from cli.job.requests import document_requests, ticket_request
from cli.job.run import JobResult, JobRunner, LaneLoad
from cli.job.samples import Sample
from libs.client.client import TwinlaneClient
from libs.core.clock import Clock, SystemClock
from libs.core.lanes import Lane

# What one CPU core keeps up with while the model is real: a ticket takes a third of a second there.
DEFAULT_TICKETS_PER_S = 2.0
_MAX_TICKETS_IN_FLIGHT = 16


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """A finished job and the controller's part in it."""

    result: JobResult
    status: admin_pb2.GetStatusResponse | None
    changes: tuple[admin_pb2.Decision, ...]


def make_loads(*, tickets_per_s: float, max_tickets: int | None) -> tuple[LaneLoad, LaneLoad]:
    """Return the loads of both lanes; `max_tickets` bounds the tickets, None takes all."""
    tickets, documents = load_tickets(), load_documents()
    names = categories(tickets)
    summaries = [request for document in documents for request in document_requests(document)]
    return (
        LaneLoad(
            lane=Lane.REALTIME,
            requests=[ticket_request(ticket, names) for ticket in tickets[:max_tickets]],
            arrivals_per_s=tickets_per_s,
            max_in_flight=_MAX_TICKETS_IN_FLIGHT,
        ),
        LaneLoad(
            lane=Lane.BATCH,
            requests=summaries,
            arrivals_per_s=None,
            max_in_flight=len(summaries),
        ),
    )


async def run_job(*, router: str, controller: str, loads: tuple[LaneLoad, ...], console: Console, clock: Clock) -> JobOutcome:
    """Run the loads with a progress line, then ask the controller what it did meanwhile."""
    begun = Timestamp()
    begun.FromNanoseconds(int(clock.wall_s() * 1e9))
    done: Counter[Lane] = Counter()
    with console.status("main job begins") as line:

        def progress(sample: Sample) -> None:
            done[sample.lane] += 1
            line.update(", ".join(f"{load.lane.name.lower()} {done[load.lane]}/{len(load.requests)}" for load in loads))

        async with TwinlaneClient.connect(router, clock=clock) as client:
            result = await JobRunner(client, clock=clock, progress=progress).run(loads)
    return JobOutcome(result=result, status=await read_status(controller), changes=await changes_since(controller, begun))


def job(
    tickets_per_s: Annotated[float, typer.Option(min=0.01, help="Arrivals on the realtime lane.")] = DEFAULT_TICKETS_PER_S,
    tickets: Annotated[int | None, typer.Option(min=1, help="Only so many tickets.")] = None,
    router: Annotated[str, typer.Option(help="host:port of a router.")] = DEFAULT_ROUTER,
    controller: Annotated[str, typer.Option(help="host:port of the controller.")] = DEFAULT_CONTROLLER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Classify tickets on the realtime lane while documents are summarised on the batch lane; print what it took."""
    loads = make_loads(tickets_per_s=tickets_per_s, max_tickets=tickets)
    console = Console(stderr=as_json, highlight=False, markup=False)
    outcome = asyncio.run(run_job(router=router, controller=controller, loads=loads, console=console, clock=SystemClock()))
    if as_json:
        typer.echo(json.dumps(to_json(outcome.result, len(outcome.changes))))
    else:
        console.print(report(outcome.result, outcome.status, outcome.changes))
