"""What the batch lane works with, free of transport and storage. Times are Clock.wall_s(): they outlive the process."""

from dataclasses import dataclass
from enum import IntEnum


class JobState(IntEnum):
    """Where a job stands. Numbers from 1 are those of twinlane.batch.v1.JobState; STAGING jobs are not shown to anybody."""

    STAGING = 0
    QUEUED = 1
    RUNNING = 2
    CANCELLING = 3
    COMPLETED = 4
    CANCELLED = 5
    EXPIRED = 6


ENDED_JOBS = frozenset({JobState.COMPLETED, JobState.CANCELLED, JobState.EXPIRED})


class ItemState(IntEnum):
    """Where an item stands. Numbers from 1 to 4 are those of twinlane.batch.v1.ItemState."""

    SUCCEEDED = 1
    FAILED = 2
    CANCELLED = 3
    EXPIRED = 4
    WAITING = 10
    RUNNING = 11


class JobKind(IntEnum):
    """Who asked: a submitted job, or one deferred request (its job_id is the ticket)."""

    JOB = 1
    TICKET = 2


@dataclass(frozen=True, kw_only=True)
class BlobRef:
    """Bytes inside an object of the store."""

    key: str
    offset: int
    length: int


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A job as it is first stored. `content_digest` tells two submissions of one key apart."""

    job_id: str
    kind: JobKind
    tenant: str
    idempotency_key: str
    content_digest: str
    display_name: str
    line_format: int
    priority: int
    created_at_s: float
    expire_at_s: float


@dataclass(frozen=True, kw_only=True)
class NewItem:
    """One checked line. Items of one `group` share a prompt prefix."""

    index: int
    custom_id: str
    group: int
    payload: BlobRef


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One reading of a job. total = waiting + running + succeeded + failed + cancelled + expired."""

    job_id: str
    kind: JobKind
    tenant: str
    idempotency_key: str
    content_digest: str
    display_name: str
    line_format: int
    priority: int
    state: JobState
    created_at_s: float
    started_at_s: float | None
    ended_at_s: float | None
    expire_at_s: float
    total: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def ended_items(self) -> int:
        """Items that have their final state."""
        return self.succeeded + self.failed + self.cancelled + self.expired

    @property
    def waiting(self) -> int:
        """Items not started, or put back."""
        return self.total - self.ended_items - self.running


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One item held by one holder. `token` fences: only the newest claim of an item can settle it."""

    job_id: str
    index: int
    custom_id: str
    tenant: str
    priority: int
    group: int
    token: int
    attempts: int
    failures: int
    expire_at_s: float
    payload: BlobRef


@dataclass(frozen=True, kw_only=True)
class Success:
    """An answer, already in the store."""

    claim: Claim
    result: BlobRef
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed attempt. With `retry_at_s` the item waits until then; without, it is listed as failed."""

    claim: Claim
    reason: str
    message: str
    retry_at_s: float | None


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """An attempt that was ended from outside (room for realtime, no engine, shutdown): no failure; runs again from
    `retry_at_s` on."""

    claim: Claim
    retry_at_s: float = 0.0


Settlement = Success | Failure | PutBack


@dataclass(frozen=True, kw_only=True)
class EndedItem:
    """One line of a job's results. `result` is set for SUCCEEDED, reason and message else."""

    seq: int
    index: int
    custom_id: str
    state: ItemState
    attempts: int
    result: BlobRef | None
    reason: str
    message: str


class JobUnknownError(Exception):
    """The tenant has no such job or ticket."""


class IdempotencyConflictError(Exception):
    """The key was used with other content; carries the first job's id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id


class StoreUnavailableError(Exception):
    """Ledger or object store cannot be written or read now; nothing was accepted."""
