"""Deferred single requests: each is a job of one item whose id is the ticket."""

import json
from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict, ParseDict
from sqlalchemy import Connection
from twinlane.inference.v1 import inference_pb2

from services.router.batch import jobs, results
from services.router.batch.database import Database
from services.router.batch.domain import BlobRef, EndedItem, JobKind, JobView, NewItem, NewJob
from services.router.batch.store import BlobStore

_ITEM_ID = "request"


@dataclass(frozen=True, kw_only=True)
class TicketView:
    """One reading of a ticket; `ended` is set when the request has its end."""

    job: JobView
    ended: EndedItem | None


async def accept(job: NewJob, request: inference_pb2.CompleteRequest, *, database: Database, store: BlobStore) -> str:
    """Store a request durably and return its ticket. Raises StoreUnavailableError; then nothing was accepted.

    The payload is written before the ledger row, so that a row never points to nothing.
    """
    fields = MessageToDict(request, preserving_proto_field_name=True)
    content = json.dumps({"custom_id": _ITEM_ID, "request": fields}).encode()
    payload = BlobRef(key=f"tickets/{job.job_id}/request.json", offset=0, length=len(content))
    await store.write(payload.key, content)
    item = NewItem(index=0, custom_id=_ITEM_ID, group=0, payload=payload)

    def publish(connection: Connection) -> None:
        jobs.stage_job(connection, job)
        jobs.stage_items(connection, job.job_id, [item])
        jobs.publish_job(connection, job, total=1)

    await database.run(publish)
    return job.job_id


async def read(tenant: str, ticket_id: str, *, database: Database) -> TicketView:
    """Return where a tenant's ticket stands. Raises JobUnknownError or StoreUnavailableError."""

    def work(connection: Connection) -> TicketView:
        job = jobs.read_job(connection, tenant, ticket_id, JobKind.TICKET)
        ended = results.read_ended(connection, ticket_id, from_seq=0, limit=1)
        return TicketView(job=job, ended=ended[0] if ended else None)

    return await database.run(work)


async def read_answer(result: BlobRef, *, store: BlobStore) -> inference_pb2.CompleteResponse:
    """Return the stored answer. Raises StoreUnavailableError."""
    line = json.loads(await store.read(result))
    return ParseDict(line["response"], inference_pb2.CompleteResponse())
