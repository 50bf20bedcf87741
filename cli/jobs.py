"""`twinlane jobs`: work that nobody waits for."""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from twinlane.batch.v1 import batch_pb2, batch_pb2_grpc

from cli.calls import ADMIN_TIMEOUT_S, DEFAULT_ROUTER, call
from cli.errors import CliError, CommandGroup, ExitCode
from libs.rpc.fault import read_fault

jobs = typer.Typer(cls=CommandGroup, rich_markup_mode=None, no_args_is_help=True, help="Submit jobs and read their results.")

Router = Annotated[str, typer.Option("--router", help="host:port of a router.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Whose jobs; sent as x-tenant.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
JobId = Annotated[str, typer.Argument(help="Name of the job.")]

_DEFAULT_TENANT = "default"
_PIECE_BYTES = 256 * 1024
_SECONDS_PER_HOUR = 3600
_LISTED = 50


@jobs.command()
def submit(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="JSON lines, ours or OpenAI's.")],
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key; default: made from the file's content.")] = None,
    name: Annotated[str, typer.Option("--name", help="Name for people.")] = "",
    window_hours: Annotated[float, typer.Option("--window-hours", min=0.02, help="When it should be done.")] = 24.0,
    watch: Annotated[bool, typer.Option("--watch", help="Stay and show its progress.")] = False,
    tenant: Tenant = _DEFAULT_TENANT,
    router: Router = DEFAULT_ROUTER,
    as_json: AsJson = False,
) -> None:
    """Submit a file as a job; its lines are checked first, all faults are reported. Submitting it twice is one job."""
    spec = batch_pb2.JobSpec(
        idempotency_key=key or _content_key(file),
        display_name=name or file.name,
        completion_window=Duration(seconds=int(window_hours * _SECONDS_PER_HOUR)),
    )

    async def work(channel: grpc.aio.Channel) -> batch_pb2.SubmitJobResponse:
        stub: Any = batch_pb2_grpc.BatchServiceStub(channel)
        try:
            answer: batch_pb2.SubmitJobResponse = await stub.SubmitJob(_messages(spec, file), metadata=_metadata(tenant))
        except grpc.aio.AioRpcError as error:
            fault = read_fault(error)
            if fault.reason != "INVALID_LINES":
                raise
            faults = "\n".join(f"  {violation.field}: {violation.description}" for violation in fault.violations)
            raise CliError(f"{file} was not accepted:\n{faults}", ExitCode.BAD_REQUEST) from error
        return answer

    answer = call(router, work)
    if as_json:
        typer.echo(json_format.MessageToJson(answer))
    else:
        known = " (submitted before)" if answer.already_submitted else ""
        typer.echo(f"{answer.job.job_id}: {answer.job.progress.total} items{known}")
    if watch:
        _watch(router, tenant, answer.job.job_id)


@jobs.command("list")
def list_(tenant: Tenant = _DEFAULT_TENANT, router: Router = DEFAULT_ROUTER, as_json: AsJson = False) -> None:
    """List the newest jobs."""

    async def work(channel: grpc.aio.Channel) -> batch_pb2.ListJobsResponse:
        stub: Any = batch_pb2_grpc.BatchServiceStub(channel)
        request = batch_pb2.ListJobsRequest(page_size=_LISTED)
        answer: batch_pb2.ListJobsResponse = await stub.ListJobs(request, timeout=ADMIN_TIMEOUT_S, metadata=_metadata(tenant))
        return answer

    answer = call(router, work)
    if as_json:
        typer.echo(json_format.MessageToJson(answer))
        return
    Console(highlight=False, markup=False).print(_jobs_table(answer.jobs))


@jobs.command()
def show(job_id: JobId, tenant: Tenant = _DEFAULT_TENANT, router: Router = DEFAULT_ROUTER, as_json: AsJson = False) -> None:
    """Show one job."""
    _print_job(_ask(router, tenant, "GetJob", batch_pb2.GetJobRequest(job_id=job_id)).job, as_json)


@jobs.command()
def watch(job_id: JobId, tenant: Tenant = _DEFAULT_TENANT, router: Router = DEFAULT_ROUTER) -> None:
    """Show a job's progress until it ends."""
    _watch(router, tenant, job_id)


@jobs.command()
def cancel(job_id: JobId, tenant: Tenant = _DEFAULT_TENANT, router: Router = DEFAULT_ROUTER, as_json: AsJson = False) -> None:
    """End a job; what is done stays readable."""
    _print_job(_ask(router, tenant, "CancelJob", batch_pb2.CancelJobRequest(job_id=job_id)).job, as_json)


@jobs.command()
def results(
    job_id: JobId,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job has ended.")] = False,
    ordered: Annotated[bool, typer.Option("--ordered", help="In the order of the submitted lines.")] = False,
    tenant: Tenant = _DEFAULT_TENANT,
    router: Router = DEFAULT_ROUTER,
) -> None:
    """Print a job's results, one JSON line each."""

    async def work(channel: grpc.aio.Channel) -> None:
        async for result in _results(channel, tenant, job_id, follow=follow, ordered=ordered):
            typer.echo(result.line)

    call(router, work)


@jobs.command()
def verify(
    job_id: JobId,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="The file that was submitted.")],
    tenant: Tenant = _DEFAULT_TENANT,
    router: Router = DEFAULT_ROUTER,
) -> None:
    """Check that every custom id of the file is listed exactly once in the job's results."""

    async def work(channel: grpc.aio.Channel) -> Counter[str]:
        return Counter([result.custom_id async for result in _results(channel, tenant, job_id, follow=True, ordered=False)])

    listed = call(router, work)
    wanted = Counter(_custom_ids(file))
    missing, extra = wanted - listed, listed - wanted
    if missing or extra:
        raise CliError(f"{job_id}: {missing.total()} missing, {extra.total()} too many; e.g. {sorted(missing | extra)[:5]}")
    typer.echo(f"{job_id}: {listed.total()} items, each exactly once")


def _ask(router: str, tenant: str, method: str, request: Any) -> Any:
    async def work(channel: grpc.aio.Channel) -> Any:
        stub: Any = batch_pb2_grpc.BatchServiceStub(channel)
        return await getattr(stub, method)(request, timeout=ADMIN_TIMEOUT_S, metadata=_metadata(tenant))

    return call(router, work)


async def _results(
    channel: grpc.aio.Channel, tenant: str, job_id: str, *, follow: bool, ordered: bool
) -> AsyncIterator[batch_pb2.ReadResultsResponse]:
    stub: Any = batch_pb2_grpc.BatchServiceStub(channel)
    request = batch_pb2.ReadResultsRequest(job_id=job_id, follow=follow, ordered=ordered)
    async for result in stub.ReadResults(request, metadata=_metadata(tenant)):
        yield result


def _watch(router: str, tenant: str, job_id: str) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"),
    )

    async def work(channel: grpc.aio.Channel) -> batch_pb2.Job:
        stub: Any = batch_pb2_grpc.BatchServiceStub(channel)
        job = batch_pb2.Job()
        with Progress(*columns, console=Console(stderr=True)) as progress:
            shown = progress.add_task(job_id, total=None, rate="")
            request = batch_pb2.WatchJobRequest(job_id=job_id)
            async for message in stub.WatchJob(request, metadata=_metadata(tenant)):
                job = message.job
                counts = job.progress
                ended = counts.succeeded + counts.failed + counts.cancelled + counts.expired
                rate = f"{counts.completion_tokens_per_s:.0f} tok/s" if counts.completion_tokens_per_s else ""
                progress.update(shown, total=counts.total, completed=ended, rate=rate)
        return job

    _print_job(call(router, work), as_json=False)


def _print_job(job: batch_pb2.Job, as_json: bool) -> None:
    if as_json:
        typer.echo(json_format.MessageToJson(job))
        return
    Console(highlight=False, markup=False).print(_jobs_table([job]))


def _jobs_table(rows: Any) -> Table:
    """Fits 80 columns; a job's name is what people copy, so it is never cut."""
    table = Table(box=None, pad_edge=False)
    for title in ("job", "state"):
        table.add_column(title, no_wrap=True)
    for title in ("total", "left", "done", "failed"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("name", overflow="fold")
    for job in rows:
        counts = job.progress
        state = batch_pb2.JobState.Name(job.state).removeprefix("JOB_STATE_").lower()
        failed = counts.failed + counts.cancelled + counts.expired
        numbers = (counts.total, counts.waiting + counts.running, counts.succeeded, failed)
        table.add_row(job.job_id, state, *(str(number) for number in numbers), job.spec.display_name)
    return table


def _messages(spec: batch_pb2.JobSpec, file: Path) -> Iterator[batch_pb2.SubmitJobRequest]:
    yield batch_pb2.SubmitJobRequest(spec=spec)
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield batch_pb2.SubmitJobRequest(lines=piece)


def _content_key(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
    return f"sha256-{digest.hexdigest()}"


def _custom_ids(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            if line.strip():
                yield str(json.loads(line).get("custom_id"))


def _metadata(tenant: str) -> tuple[tuple[str, str], ...]:
    return (("x-tenant", tenant),)
