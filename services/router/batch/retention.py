"""Removing what nobody needs any more: old jobs, submissions that were never finished, objects without an owner."""

from sqlalchemy import Connection, select

from libs.core.clock import Clock
from services.router.batch import jobs
from services.router.batch.database import Database
from services.router.batch.domain import JobState
from services.router.batch.schema import ITEMS, JOBS
from services.router.batch.store import BlobStore

# A submission that streams slower than this is lost to its caller anyway.
_STAGING_MAX_S = 24 * 3600.0
# An object may be written this long before its ledger rows; younger ones are never orphans.
_ORPHAN_MIN_AGE_S = 24 * 3600.0
_ROUND_JOBS = 100


async def collect(*, database: Database, store: BlobStore, clock: Clock, keep_s: float) -> int:
    """Remove jobs ended more than `keep_s` ago and stale submissions, rows first, then objects that no row refers to.

    Returns the number of jobs removed. An object is removed only when no row names it, so that a crash in between leaves
    an orphan for the next round and never a row that points to nothing. Raises StoreUnavailableError.
    """
    now_s = clock.wall_s()
    job_ids = await database.run(lambda connection: _removable(connection, now_s=now_s, keep_s=keep_s))
    for job_id in job_ids:
        await _remove(job_id, database=database, store=store)
    return len(job_ids)


def _removable(connection: Connection, *, now_s: float, keep_s: float) -> list[str]:
    ended = JOBS.c.ended_at_s < now_s - keep_s
    abandoned = (JOBS.c.state == JobState.STAGING) & (JOBS.c.created_at_s < now_s - _STAGING_MAX_S)
    return list(connection.scalars(select(JOBS.c.job_id).where(ended | abandoned).limit(_ROUND_JOBS)))


async def _remove(job_id: str, *, database: Database, store: BlobStore) -> None:
    await database.run(lambda connection: jobs.discard_job(connection, job_id))
    for prefix in ("jobs", "tickets"):
        keys = [key async for key, _ in store.list_keys(f"{prefix}/{job_id}/")]
        if keys:
            await store.delete(keys)


async def collect_orphans(*, database: Database, store: BlobStore, clock: Clock) -> int:
    """Remove old objects that no item names: results of a commit that failed half-way. Returns their number."""
    newest_s = clock.wall_s() - _ORPHAN_MIN_AGE_S
    removed = 0
    for prefix in ("jobs/", "tickets/"):
        old = [key async for key, changed_s in store.list_keys(prefix) if changed_s < newest_s]
        orphans = await database.run(lambda connection, old=old: _unreferenced(connection, old))  # type: ignore[misc]
        if orphans:
            await store.delete(orphans)
        removed += len(orphans)
    return removed


def _unreferenced(connection: Connection, keys: list[str]) -> list[str]:
    named: set[str] = set()
    for column in (ITEMS.c.payload_key, ITEMS.c.result_key):
        for start in range(0, len(keys), _ROUND_JOBS):
            named.update(connection.scalars(select(column).where(column.in_(keys[start : start + _ROUND_JOBS])).distinct()))
    return [key for key in keys if key not in named]
