"""Jobs in the ledger: submitting, reading, cancelling, expiring.

Every function is one step of a transaction. Locks are taken in the order job, then items, so that routers never wait for
each other in a circle.
"""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import BindParameter, Connection, bindparam, delete, insert, select, update

from services.router.batch.domain import (
    ENDED_JOBS,
    IdempotencyConflictError,
    ItemState,
    JobKind,
    JobState,
    JobUnknownError,
    JobView,
    NewItem,
    NewJob,
)
from services.router.batch.rows import select_jobs, to_job
from services.router.batch.schema import ITEMS, JOBS

_OPEN = (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)
_INDEX: BindParameter[int] = bindparam("b_index")
_SEQ: BindParameter[int] = bindparam("b_seq")


def stage_job(connection: Connection, job: NewJob) -> None:
    """Store a job that nobody sees yet. Its key is bound to its id until it is published."""
    values = asdict(job) | {"state": JobState.STAGING, "idempotency_key": f"staging:{job.job_id}"}
    connection.execute(insert(JOBS).values(**values))


def stage_items(connection: Connection, job_id: str, items: Sequence[NewItem]) -> None:
    """Store checked lines of a staged job."""
    if items:
        connection.execute(insert(ITEMS), [_item_row(job_id, item) for item in items])


def _item_row(job_id: str, item: NewItem) -> dict[str, object]:
    return {
        "job_id": job_id,
        "item_index": item.index,
        "custom_id": item.custom_id,
        "prefix_group": item.group,
        "state": ItemState.WAITING,
        "payload_key": item.payload.key,
        "payload_offset": item.payload.offset,
        "payload_length": item.payload.length,
    }


def publish_job(connection: Connection, job: NewJob, *, total: int) -> tuple[JobView, bool]:
    """Make a staged job real, or find the one that the same key made before. Returns the job and whether it was there.

    Raises IdempotencyConflictError where that one has other content.
    """
    earlier = _submission(connection, job)
    if earlier is not None:
        if earlier.content_digest != job.content_digest:
            raise IdempotencyConflictError(earlier.job_id)
        return earlier, True
    connection.execute(
        update(JOBS)
        .where(JOBS.c.job_id == job.job_id)
        .values(state=JobState.QUEUED, total=total, idempotency_key=job.idempotency_key, content_digest=job.content_digest)
    )
    return read_job(connection, job.tenant, job.job_id, job.kind), False


def _submission(connection: Connection, job: NewJob) -> JobView | None:
    query = select_jobs().where(
        JOBS.c.tenant == job.tenant, JOBS.c.kind == job.kind, JOBS.c.idempotency_key == job.idempotency_key
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else to_job(row)


def discard_job(connection: Connection, job_id: str) -> None:
    """Remove a job and its items, whatever its state."""
    connection.execute(delete(ITEMS).where(ITEMS.c.job_id == job_id))
    connection.execute(delete(JOBS).where(JOBS.c.job_id == job_id))


def read_job(connection: Connection, tenant: str, job_id: str, kind: JobKind) -> JobView:
    """Return a tenant's job. Raises JobUnknownError, for another tenant's job too."""
    query = select_jobs().where(
        JOBS.c.job_id == job_id, JOBS.c.tenant == tenant, JOBS.c.kind == kind, JOBS.c.state != JobState.STAGING
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise JobUnknownError(job_id)
    return to_job(row)


def list_jobs(connection: Connection, tenant: str, *, before: tuple[float, str] | None, limit: int) -> list[JobView]:
    """Return up to `limit` jobs of a tenant, newest first, older than the (created_at_s, job_id) given."""
    query = select_jobs().where(JOBS.c.tenant == tenant, JOBS.c.kind == JobKind.JOB, JOBS.c.state != JobState.STAGING)
    if before is not None:
        created_at_s, job_id = before
        query = query.where(
            (JOBS.c.created_at_s < created_at_s) | ((JOBS.c.created_at_s == created_at_s) & (JOBS.c.job_id < job_id))
        )
    query = query.order_by(JOBS.c.created_at_s.desc(), JOBS.c.job_id.desc()).limit(limit)
    return [to_job(row) for row in connection.execute(query)]


def open_jobs(connection: Connection, *, limit: int) -> list[JobView]:
    """Return unfinished jobs of all tenants, most urgent first."""
    query = select_jobs().where(JOBS.c.state.in_(_OPEN)).order_by(JOBS.c.priority, JOBS.c.created_at_s).limit(limit)
    return [to_job(row) for row in connection.execute(query)]


def job_states(connection: Connection, job_ids: Sequence[str]) -> dict[str, JobState]:
    """Return the states of the jobs that exist among these."""
    query = select(JOBS.c.job_id, JOBS.c.state).where(JOBS.c.job_id.in_(job_ids))
    return {row.job_id: JobState(row.state) for row in connection.execute(query)}


def request_cancel(connection: Connection, tenant: str, job_id: str, *, now_s: float) -> JobView:
    """Cancel what waits and mark the rest to be stopped; an ended job is returned as it is. Raises JobUnknownError."""
    job = read_job(connection, tenant, job_id, JobKind.JOB)
    if job.state in ENDED_JOBS:
        return job
    connection.execute(update(JOBS).where(JOBS.c.job_id == job_id).values(state=JobState.CANCELLING))
    end_waiting(connection, job_id, ItemState.CANCELLED)
    close_if_done(connection, job_id, now_s=now_s)
    return read_job(connection, tenant, job_id, JobKind.JOB)


def expire_jobs(connection: Connection, *, now_s: float) -> list[str]:
    """List what waits in jobs past their window as expired. Returns these jobs' ids."""
    query = select(JOBS.c.job_id).where(JOBS.c.state.in_(_OPEN), JOBS.c.expire_at_s <= now_s)
    job_ids = [row.job_id for row in connection.execute(query.with_for_update())]
    for job_id in job_ids:
        end_waiting(connection, job_id, ItemState.EXPIRED)
        close_if_done(connection, job_id, now_s=now_s)
    return job_ids


_COUNTERS = {
    ItemState.SUCCEEDED: "succeeded",
    ItemState.FAILED: "failed",
    ItemState.CANCELLED: "cancelled",
    ItemState.EXPIRED: "expired",
}


def reserve_seqs(connection: Connection, job_id: str, ended: dict[ItemState, int]) -> int:
    """Lock the job, count items as ended, and return the result_seq of the first of them."""
    row = connection.execute(
        select(JOBS.c.succeeded, JOBS.c.failed, JOBS.c.cancelled, JOBS.c.expired)
        .where(JOBS.c.job_id == job_id)
        .with_for_update()
    ).one()
    changes = {_COUNTERS[state]: JOBS.c[_COUNTERS[state]] + count for state, count in ended.items() if count}
    if changes:
        connection.execute(update(JOBS).where(JOBS.c.job_id == job_id).values(**changes))
    return int(row.succeeded + row.failed + row.cancelled + row.expired)


def end_waiting(connection: Connection, job_id: str, state: ItemState) -> None:
    """Give every waiting item of a job its final state, in the order of its lines."""
    reserve_seqs(connection, job_id, {})
    query = (
        select(ITEMS.c.item_index)
        .where(ITEMS.c.job_id == job_id, ITEMS.c.state == ItemState.WAITING)
        .order_by(ITEMS.c.item_index)
        .with_for_update()
    )
    indices = [row.item_index for row in connection.execute(query)]
    if not indices:
        return
    first = reserve_seqs(connection, job_id, {state: len(indices)})
    by_key = ITEMS.update().where(ITEMS.c.job_id == job_id, ITEMS.c.item_index == _INDEX)
    connection.execute(
        by_key.values(state=state, result_seq=_SEQ, error_reason=state.name),
        [{"b_index": index, "b_seq": first + place} for place, index in enumerate(indices)],
    )


def close_if_done(connection: Connection, job_id: str, *, now_s: float) -> None:
    """End a job of which every item has ended."""
    row = connection.execute(select(JOBS).where(JOBS.c.job_id == job_id).with_for_update()).one()
    ended = row.succeeded + row.failed + row.cancelled + row.expired
    if ended < row.total or row.state in ENDED_JOBS:
        return
    state = _final_state(JobState(row.state), expired=row.expired)
    connection.execute(update(JOBS).where(JOBS.c.job_id == job_id).values(state=state, ended_at_s=now_s))


def _final_state(state: JobState, *, expired: int) -> JobState:
    if state is JobState.CANCELLING:
        return JobState.CANCELLED
    return JobState.EXPIRED if expired else JobState.COMPLETED
