"""Rows of the ledger into domain objects."""

from typing import Any

from sqlalchemy import ColumnElement, Row, Select, case, func, select

from services.router.batch.domain import BlobRef, Claim, EndedItem, ItemState, JobKind, JobState, JobView
from services.router.batch.schema import ITEMS, JOBS

_RUNNING: ColumnElement[int] = (
    select(func.count())
    .select_from(ITEMS)
    .where(ITEMS.c.job_id == JOBS.c.job_id, ITEMS.c.state == ItemState.RUNNING)
    .correlate(JOBS)
    .scalar_subquery()
)


def select_jobs() -> Select[Any]:
    """Return a query of whole jobs with the count of their running items."""
    # Ended jobs have none; not counting them keeps long lists cheap.
    running = case((JOBS.c.ended_at_s.is_(None), _RUNNING), else_=0)
    return select(JOBS, running.label("running"))


def to_job(row: Row[Any]) -> JobView:
    """Return the job of a row of `select_jobs`."""
    fields = dict(row._mapping)
    return JobView(**{**fields, "kind": JobKind(row.kind), "state": JobState(row.state)})


def to_claim(row: Row[Any]) -> Claim:
    """Return the claim of an item row joined with its job's tenant, priority and expire_at_s."""
    return Claim(
        job_id=row.job_id,
        index=row.item_index,
        custom_id=row.custom_id,
        tenant=row.tenant,
        priority=row.priority,
        group=row.prefix_group,
        token=row.token,
        attempts=row.attempts,
        failures=row.failures,
        expire_at_s=row.expire_at_s,
        payload=BlobRef(key=row.payload_key, offset=row.payload_offset, length=row.payload_length),
    )


def to_ended(row: Row[Any]) -> EndedItem:
    """Return the result line of an item row that has ended."""
    result = None
    if row.result_key is not None:
        result = BlobRef(key=row.result_key, offset=row.result_offset, length=row.result_length)
    return EndedItem(
        seq=row.result_seq,
        index=row.item_index,
        custom_id=row.custom_id,
        state=ItemState(row.state),
        attempts=row.attempts,
        result=result,
        reason=row.error_reason,
        message=row.error_message,
    )
