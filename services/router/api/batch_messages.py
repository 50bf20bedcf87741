"""Jobs of the ledger as messages of BatchService."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from twinlane.batch.v1 import batch_pb2

from services.router.batch.domain import EndedItem, ItemState, JobState, JobView
from services.router.batch.progress import JobRates
from services.router.batch.tickets import TicketView

_TICKET_STATES = {
    ItemState.SUCCEEDED: batch_pb2.TICKET_STATE_READY,
    ItemState.FAILED: batch_pb2.TICKET_STATE_FAILED,
    ItemState.CANCELLED: batch_pb2.TICKET_STATE_FAILED,
    ItemState.EXPIRED: batch_pb2.TICKET_STATE_EXPIRED,
}


def job_message(job: JobView, rates: JobRates) -> batch_pb2.Job:
    """Return a job with its progress."""
    message = batch_pb2.Job(
        job_id=job.job_id,
        spec=batch_pb2.JobSpec(
            idempotency_key=job.idempotency_key,
            display_name=job.display_name,
            format=batch_pb2.LineFormat.ValueType(job.line_format),
            completion_window=_duration(job.expire_at_s - job.created_at_s),
            priority=job.priority,
        ),
        state=batch_pb2.JobState.ValueType(JobState(job.state).value),
        progress=_progress(job, rates),
        created_at=_timestamp(job.created_at_s),
        expire_time=_timestamp(job.expire_at_s),
    )
    if job.started_at_s is not None:
        message.started_at.CopyFrom(_timestamp(job.started_at_s))
    if job.ended_at_s is not None:
        message.ended_at.CopyFrom(_timestamp(job.ended_at_s))
    return message


def _progress(job: JobView, rates: JobRates) -> batch_pb2.JobProgress:
    progress = batch_pb2.JobProgress(
        total=job.total,
        waiting=job.waiting,
        running=job.running,
        succeeded=job.succeeded,
        failed=job.failed,
        cancelled=job.cancelled,
        expired=job.expired,
        prompt_tokens=job.prompt_tokens,
        completion_tokens=job.completion_tokens,
        items_per_hour=rates.items_per_hour,
        completion_tokens_per_s=rates.completion_tokens_per_s,
    )
    if rates.estimated_end_s is not None:
        progress.estimated_end.CopyFrom(_timestamp(rates.estimated_end_s))
    return progress


def ticket_message(ticket: TicketView) -> batch_pb2.GetTicketResponse:
    """Return where a ticket stands."""
    ended = ticket.ended
    return batch_pb2.GetTicketResponse(
        ticket_id=ticket.job.job_id,
        state=batch_pb2.TICKET_STATE_PENDING if ended is None else _TICKET_STATES[ended.state],
        created_at=_timestamp(ticket.job.created_at_s),
        expire_time=_timestamp(ticket.job.expire_at_s),
        error_reason="" if ended is None else ended.reason,
    )


def result_message(offset: int, item: EndedItem, line: str) -> batch_pb2.ReadResultsResponse:
    """Return one result of a reading."""
    return batch_pb2.ReadResultsResponse(
        offset=offset,
        custom_id=item.custom_id,
        state=batch_pb2.ItemState.ValueType(item.state.value),
        attempts=item.attempts,
        line=line,
    )


def _timestamp(wall_s: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(round(wall_s * 1e6))
    return stamp


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1e6))
    return duration
