"""BatchService: jobs, their results, and tickets of deferred requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from sqlalchemy import Connection
from twinlane.batch.v1 import batch_pb2, batch_pb2_grpc

from libs.core.clock import Clock
from libs.core.ids import IdSource
from libs.rpc.fault import Fault, FaultError, FieldViolation, invalid_argument
from libs.rpc.server import Service
from services.router.api import batch_messages as messages
from services.router.api import batch_requests as requests
from services.router.batch import jobs, progress, results, tickets
from services.router.batch.database import Database
from services.router.batch.domain import ENDED_JOBS, EndedItem, JobKind, JobView, NewJob
from services.router.batch.lines import LineForm, parse_line
from services.router.batch.openai_lines import OpenAiKind
from services.router.batch.result_lines import ResultForm, result_text
from services.router.batch.store import BlobStore
from services.router.batch.submit import Check, Submission

_WATCH_INTERVAL_S = 1.0
_READ_ROWS = 256
_PENDING_RETRY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class BatchParts:
    """What the service works with."""

    database: Database
    store: BlobStore
    clock: Clock
    ids: IdSource
    check: Check
    tenant_of: Callable[[Any], str]
    wake_runner: Callable[[], None]
    stop_ended_jobs: Callable[[], Awaitable[None]]


class BatchServicer(batch_pb2_grpc.BatchServiceServicer):
    """Serves BatchService of one router. Jobs live in the ledger: any router answers for any job."""

    def __init__(self, parts: BatchParts) -> None:
        self._parts = parts

    async def SubmitJob(
        self, request_iterator: AsyncIterator[batch_pb2.SubmitJobRequest], context: Any
    ) -> batch_pb2.SubmitJobResponse:
        """Store a job."""
        tenant = self._parts.tenant_of(context)
        submission: Submission | None = None
        try:
            async for message in request_iterator:
                if submission is None:
                    submission = await self._open(message, tenant)
                elif message.WhichOneof("part") == "lines":
                    await submission.feed(message.lines)
                else:
                    raise FaultError(_out_of_place("lines", "every message after the first carries lines"))
        except BaseException:
            if submission is not None:
                await asyncio.shield(submission.abandon())
            raise
        if submission is None:
            raise FaultError(_out_of_place("spec", "the first message carries the spec"))
        job, existed = await submission.finish()
        self._parts.wake_runner()
        return batch_pb2.SubmitJobResponse(job=await self._message(job), already_submitted=existed)

    async def _open(self, message: batch_pb2.SubmitJobRequest, tenant: str) -> Submission:
        if message.WhichOneof("part") != "spec":
            raise FaultError(_out_of_place("spec", "the first message carries the spec"))
        spec, now_s = message.spec, self._parts.clock.wall_s()
        job = NewJob(
            job_id=self._parts.ids.next("job"),
            kind=JobKind.JOB,
            tenant=tenant,
            idempotency_key=spec.idempotency_key,
            content_digest=f"{spec.format}:{spec.priority}",
            display_name=spec.display_name,
            line_format=spec.format,
            priority=spec.priority,
            created_at_s=now_s,
            expire_at_s=now_s + requests.check_spec(spec),
        )
        submission = Submission(job=job, database=self._parts.database, store=self._parts.store, check=self._parts.check)
        await submission.start()
        return submission

    async def GetJob(self, request: batch_pb2.GetJobRequest, context: Any) -> batch_pb2.GetJobResponse:
        """Read one job."""
        return batch_pb2.GetJobResponse(job=await self._message(await self._job(request.job_id, context)))

    async def ListJobs(self, request: batch_pb2.ListJobsRequest, context: Any) -> batch_pb2.ListJobsResponse:
        """Page through the tenant's jobs."""
        size = requests.check_page_size(request.page_size)
        before = requests.read_page_token(request.page_token)
        tenant = self._parts.tenant_of(context)
        found = await self._parts.database.run(
            lambda connection: jobs.list_jobs(connection, tenant, before=before, limit=size + 1)
        )
        page = found[:size]
        token = requests.page_token(page[-1].created_at_s, page[-1].job_id) if len(found) > size else ""
        return batch_pb2.ListJobsResponse(jobs=[await self._message(job) for job in page], next_page_token=token)

    async def WatchJob(self, request: batch_pb2.WatchJobRequest, context: Any) -> AsyncIterator[batch_pb2.WatchJobResponse]:
        """Stream progress until the job ends."""
        sent: batch_pb2.Job | None = None
        while True:
            job = await self._job(request.job_id, context)
            message = await self._message(job)
            if message != sent:
                yield batch_pb2.WatchJobResponse(job=message)
                sent = message
            if job.state in ENDED_JOBS:
                return
            await asyncio.sleep(_WATCH_INTERVAL_S)

    async def CancelJob(self, request: batch_pb2.CancelJobRequest, context: Any) -> batch_pb2.CancelJobResponse:
        """End a job."""
        job_id = requests.check_id("job_id", request.job_id)
        tenant, now_s = self._parts.tenant_of(context), self._parts.clock.wall_s()
        job = await self._parts.database.run(lambda connection: jobs.request_cancel(connection, tenant, job_id, now_s=now_s))
        await self._parts.stop_ended_jobs()
        return batch_pb2.CancelJobResponse(job=await self._message(job))

    async def ReadResults(
        self, request: batch_pb2.ReadResultsRequest, context: Any
    ) -> AsyncIterator[batch_pb2.ReadResultsResponse]:
        """Stream ended items."""
        job = await self._job(request.job_id, context)
        form = requests.result_form(request.format, of_job=job.line_format)
        offset = request.offset
        while True:
            # Read the state first: what ended before it is then certain to be in the rows.
            job = await self._job(request.job_id, context)
            ended = await self._ended(request, offset)
            for item in ended:
                kind = await self._kind(job.job_id, item) if form is ResultForm.OPENAI else OpenAiKind.CHAT
                line = await result_text(item, form, store=self._parts.store, kind=kind, created_s=int(job.created_at_s))
                yield messages.result_message(offset, item, line)
                offset += 1
            if len(ended) == _READ_ROWS:
                continue
            if job.state in ENDED_JOBS or not request.follow:
                return
            await asyncio.sleep(_WATCH_INTERVAL_S)

    async def _ended(self, request: batch_pb2.ReadResultsRequest, offset: int) -> list[EndedItem]:
        def work(connection: Connection) -> list[EndedItem]:
            if request.ordered:
                return results.read_ordered(connection, request.job_id, from_index=offset, limit=_READ_ROWS)
            return results.read_ended(connection, request.job_id, from_seq=offset, limit=_READ_ROWS)

        return await self._parts.database.run(work)

    async def _kind(self, job_id: str, item: EndedItem) -> OpenAiKind:
        """Which OpenAI endpoint the item's line was written for; chat where it was in Twinlane's form."""
        payload = await self._parts.database.run(lambda connection: results.read_payload(connection, job_id, item.index))
        line = parse_line(await self._parts.store.read(payload))
        return OpenAiKind.COMPLETIONS if line.form is LineForm.OPENAI_COMPLETIONS else OpenAiKind.CHAT

    async def GetTicket(self, request: batch_pb2.GetTicketRequest, context: Any) -> batch_pb2.GetTicketResponse:
        """Say where a deferred request stands."""
        return messages.ticket_message(await self._ticket(request.ticket_id, context))

    async def RedeemTicket(self, request: batch_pb2.RedeemTicketRequest, context: Any) -> batch_pb2.RedeemTicketResponse:
        """Give a deferred request's answer."""
        ticket = await self._ticket(request.ticket_id, context)
        if ticket.ended is None:
            raise FaultError(_pending(request.ticket_id))
        if ticket.ended.result is None:
            raise FaultError(_failed(ticket.ended))
        answer = await tickets.read_answer(ticket.ended.result, store=self._parts.store)
        return batch_pb2.RedeemTicketResponse(response=answer)

    async def _job(self, job_id: str, context: Any) -> JobView:
        requests.check_id("job_id", job_id)
        tenant = self._parts.tenant_of(context)
        return await self._parts.database.run(lambda connection: jobs.read_job(connection, tenant, job_id, JobKind.JOB))

    async def _ticket(self, ticket_id: str, context: Any) -> tickets.TicketView:
        requests.check_id("ticket_id", ticket_id)
        return await tickets.read(self._parts.tenant_of(context), ticket_id, database=self._parts.database)

    async def _message(self, job: JobView) -> batch_pb2.Job:
        now_s = self._parts.clock.wall_s()
        rates = await self._parts.database.run(lambda connection: progress.read_rates(connection, job, now_s=now_s))
        return messages.job_message(job, rates)


def _out_of_place(field: str, description: str) -> Fault:
    return invalid_argument("OUT_OF_PLACE", FieldViolation(field, description))


def _pending(ticket_id: str) -> Fault:
    return Fault(
        code=grpc.StatusCode.FAILED_PRECONDITION,
        reason="TICKET_PENDING",
        message=f"ticket {ticket_id} has no answer yet",
        retry_after_s=_PENDING_RETRY_S,
    )


def _failed(item: EndedItem) -> Fault:
    return Fault(
        code=grpc.StatusCode.ABORTED,
        reason=item.reason,
        message=item.message or f"the deferred request ended as {item.state.name}",
        never_retry=True,
    )


NAME = "twinlane.batch.v1.BatchService"


def batch_service(servicer: BatchServicer) -> Service:
    """Return the service to add to a server."""
    return Service(name=NAME, add_to=lambda server: batch_pb2_grpc.add_BatchServiceServicer_to_server(servicer, server))
