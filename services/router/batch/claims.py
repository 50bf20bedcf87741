"""Claims on items: take, renew, settle, reap. A claim's token fences off every earlier holder of the item."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from sqlalchemy import Connection, select, tuple_, update

from services.router.batch.domain import Claim, Failure, ItemState, JobState, PutBack, Settlement, Success
from services.router.batch.jobs import close_if_done, end_waiting, reserve_seqs
from services.router.batch.rows import to_claim
from services.router.batch.schema import ITEMS, JOBS

_MESSAGE_MAX_CHARS = 1024


def claim_items(connection: Connection, job_id: str, *, holder: str, limit: int, now_s: float, lease_s: float) -> list[Claim]:
    """Take up to `limit` waiting items of one job for `holder`, items of one prefix group together.

    Rows that another router is taking at this moment are passed over (SKIP LOCKED on PostgreSQL).
    """
    _start_job(connection, job_id, now_s=now_s)
    query = (
        select(ITEMS, JOBS.c.tenant, JOBS.c.priority, JOBS.c.expire_at_s)
        .join(JOBS, JOBS.c.job_id == ITEMS.c.job_id)
        .where(
            ITEMS.c.job_id == job_id,
            ITEMS.c.state == ItemState.WAITING,
            ITEMS.c.not_before_s <= now_s,
            JOBS.c.state == JobState.RUNNING,
            JOBS.c.expire_at_s > now_s,
        )
        .order_by(ITEMS.c.prefix_group, ITEMS.c.item_index)
        .limit(limit)
        .with_for_update(skip_locked=True, of=ITEMS)
    )
    rows = connection.execute(query).all()
    if not rows:
        return []
    indices = [row.item_index for row in rows]
    connection.execute(
        update(ITEMS)
        .where(ITEMS.c.job_id == job_id, ITEMS.c.item_index.in_(indices))
        .values(
            state=ItemState.RUNNING,
            holder=holder,
            lease_until_s=now_s + lease_s,
            token=ITEMS.c.token + 1,
            attempts=ITEMS.c.attempts + 1,
        )
    )
    return [_taken(to_claim(row)) for row in rows]


def _taken(before: Claim) -> Claim:
    return Claim(**{**before.__dict__, "token": before.token + 1, "attempts": before.attempts + 1})


def _start_job(connection: Connection, job_id: str, *, now_s: float) -> None:
    connection.execute(
        update(JOBS)
        .where(JOBS.c.job_id == job_id, JOBS.c.state == JobState.QUEUED)
        .values(state=JobState.RUNNING, started_at_s=now_s)
    )


def renew_leases(connection: Connection, *, holder: str, now_s: float, lease_s: float) -> None:
    """Prolong every lease of a holder."""
    connection.execute(
        update(ITEMS).where(ITEMS.c.state == ItemState.RUNNING, ITEMS.c.holder == holder).values(lease_until_s=now_s + lease_s)
    )


def reap_leases(connection: Connection, *, now_s: float) -> int:
    """Put items whose lease ran out back to waiting, or to their job's end where that was cancelled. Returns their number."""
    lapsed = (ITEMS.c.state == ItemState.RUNNING, ITEMS.c.lease_until_s < now_s)
    job_ids = sorted(connection.scalars(select(ITEMS.c.job_id).where(*lapsed).distinct()))
    return sum(_reap_job(connection, job_id, now_s=now_s) for job_id in job_ids)


def _reap_job(connection: Connection, job_id: str, *, now_s: float) -> int:
    reserve_seqs(connection, job_id, {})
    put_back = connection.execute(
        update(ITEMS)
        .where(ITEMS.c.job_id == job_id, ITEMS.c.state == ItemState.RUNNING, ITEMS.c.lease_until_s < now_s)
        .values(state=ItemState.WAITING, holder="")
    )
    _end_if_stopping(connection, job_id, now_s=now_s)
    close_if_done(connection, job_id, now_s=now_s)
    return put_back.rowcount


def settle(connection: Connection, settlements: Sequence[Settlement], *, now_s: float) -> list[Settlement]:
    """Record how claims ended, all in this transaction. Returns those that no longer held (another holder has the item, or
    it has ended): nothing of them is recorded."""
    stale: list[Settlement] = []
    for job_id in sorted({settlement.claim.job_id for settlement in settlements}):
        own = [settlement for settlement in settlements if settlement.claim.job_id == job_id]
        stale += _settle_job(connection, job_id, own, now_s=now_s)
    return stale


def _settle_job(connection: Connection, job_id: str, settlements: list[Settlement], *, now_s: float) -> list[Settlement]:
    reserve_seqs(connection, job_id, {})
    held = _held(connection, job_id, (settlement.claim for settlement in settlements))
    live = [settlement for settlement in settlements if (settlement.claim.index, settlement.claim.token) in held]
    successes = [settlement for settlement in live if isinstance(settlement, Success)]
    failures = [settlement for settlement in live if isinstance(settlement, Failure) and settlement.retry_at_s is None]
    seq = reserve_seqs(connection, job_id, {ItemState.SUCCEEDED: len(successes), ItemState.FAILED: len(failures)})
    for settlement in live:
        match settlement:
            case Success():
                _record_success(connection, settlement, seq, now_s)
                seq += 1
            case Failure(retry_at_s=None):
                _record_failure(connection, settlement, seq, now_s)
                seq += 1
            case Failure():
                _record_retry(connection, settlement)
            case PutBack():
                _record_put_back(connection, settlement)
            case _:
                assert_never(settlement)
    if successes:
        _count_tokens(connection, job_id, successes)
    _end_if_stopping(connection, job_id, now_s=now_s)
    close_if_done(connection, job_id, now_s=now_s)
    return [settlement for settlement in settlements if settlement not in live]


def _held(connection: Connection, job_id: str, claims: Iterable[Claim]) -> set[tuple[int, int]]:
    """Return (index, token) of the claims that still hold. A reaped item that nobody took since may still be settled."""
    pairs = [(claim.index, claim.token) for claim in claims]
    query = select(ITEMS.c.item_index, ITEMS.c.token).where(
        ITEMS.c.job_id == job_id,
        ITEMS.c.state.in_((ItemState.RUNNING, ItemState.WAITING)),
        tuple_(ITEMS.c.item_index, ITEMS.c.token).in_(pairs),
    )
    return {(row.item_index, row.token) for row in connection.execute(query.with_for_update())}


def _update_item(connection: Connection, claim: Claim, **values: object) -> None:
    connection.execute(update(ITEMS).where(ITEMS.c.job_id == claim.job_id, ITEMS.c.item_index == claim.index).values(**values))


def _record_success(connection: Connection, success: Success, seq: int, now_s: float) -> None:
    _update_item(
        connection,
        success.claim,
        state=ItemState.SUCCEEDED,
        result_seq=seq,
        result_key=success.result.key,
        result_offset=success.result.offset,
        result_length=success.result.length,
        ended_at_s=now_s,
        completion_tokens=success.completion_tokens,
        holder="",
    )


def _record_failure(connection: Connection, failure: Failure, seq: int, now_s: float) -> None:
    _update_item(
        connection,
        failure.claim,
        state=ItemState.FAILED,
        result_seq=seq,
        ended_at_s=now_s,
        failures=ITEMS.c.failures + 1,
        error_reason=failure.reason,
        error_message=failure.message[:_MESSAGE_MAX_CHARS],
        holder="",
    )


def _record_retry(connection: Connection, failure: Failure) -> None:
    _update_item(
        connection,
        failure.claim,
        state=ItemState.WAITING,
        not_before_s=failure.retry_at_s,
        failures=ITEMS.c.failures + 1,
        error_reason=failure.reason,
        error_message=failure.message[:_MESSAGE_MAX_CHARS],
        holder="",
    )


def _record_put_back(connection: Connection, put_back: PutBack) -> None:
    _update_item(connection, put_back.claim, state=ItemState.WAITING, not_before_s=put_back.retry_at_s, holder="")


def _count_tokens(connection: Connection, job_id: str, successes: Sequence[Success]) -> None:
    connection.execute(
        update(JOBS)
        .where(JOBS.c.job_id == job_id)
        .values(
            prompt_tokens=JOBS.c.prompt_tokens + sum(success.prompt_tokens for success in successes),
            completion_tokens=JOBS.c.completion_tokens + sum(success.completion_tokens for success in successes),
        )
    )


def _end_if_stopping(connection: Connection, job_id: str, *, now_s: float) -> None:
    """Items put back into a job that is being cancelled or is past its window end with it."""
    job = connection.execute(select(JOBS.c.state, JOBS.c.expire_at_s).where(JOBS.c.job_id == job_id)).one()
    if job.state == JobState.CANCELLING:
        end_waiting(connection, job_id, ItemState.CANCELLED)
    elif job.expire_at_s <= now_s and job.state in (JobState.QUEUED, JobState.RUNNING):
        end_waiting(connection, job_id, ItemState.EXPIRED)
