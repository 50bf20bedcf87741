"""How fast a job goes, from what its items left in the ledger: the same on every router."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from services.router.batch.domain import ItemState, JobView
from services.router.batch.schema import ITEMS
from services.router.policy.batch import estimated_end_s

# Long enough that slow items do not make the rate jump, short enough to follow a change of load.
_ITEMS_WINDOW_S = 300.0
_TOKENS_WINDOW_S = 60.0
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class JobRates:
    """None where nothing ended in the window yet."""

    items_per_hour: float | None
    completion_tokens_per_s: float | None
    estimated_end_s: float | None


def read_rates(connection: Connection, job: JobView, *, now_s: float) -> JobRates:
    """Return a job's rates at `now_s`."""
    if job.started_at_s is None or job.ended_at_s is not None:
        return JobRates(items_per_hour=None, completion_tokens_per_s=None, estimated_end_s=None)
    age_s = max(now_s - job.started_at_s, 1.0)
    items, _ = _ended_since(connection, job.job_id, now_s - _ITEMS_WINDOW_S)
    _, tokens = _ended_since(connection, job.job_id, now_s - _TOKENS_WINDOW_S)
    items_per_s = items / min(age_s, _ITEMS_WINDOW_S)
    return JobRates(
        items_per_hour=items_per_s * _SECONDS_PER_HOUR if items else None,
        completion_tokens_per_s=tokens / min(age_s, _TOKENS_WINDOW_S) if tokens else None,
        estimated_end_s=estimated_end_s(now_s=now_s, remaining=job.total - job.ended_items, items_per_s=items_per_s),
    )


def _ended_since(connection: Connection, job_id: str, since_s: float) -> tuple[int, int]:
    query = select(func.count(), func.coalesce(func.sum(ITEMS.c.completion_tokens), 0)).where(
        ITEMS.c.job_id == job_id,
        ITEMS.c.ended_at_s > since_s,
        ITEMS.c.state.in_((ItemState.SUCCEEDED, ItemState.FAILED)),
    )
    count, tokens = connection.execute(query).one()
    return int(count), int(tokens)
