"""Runs the ledger's items through the router, as many at once as the batch lane has room for.

Tasks: one claims and starts, one per running item, one settles (settling.py), one keeps leases and notices cancelled and
expired jobs. What a runner holds when it dies runs again elsewhere after its lease.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

import structlog
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import Clock
from libs.rpc.fault import Fault, FaultError
from services.router.batch import claims, jobs
from services.router.batch.database import Database
from services.router.batch.domain import ENDED_JOBS, Claim, Failure, JobState, JobView, PutBack, StoreUnavailableError
from services.router.batch.lines import LineError, parse_line
from services.router.batch.room import Room
from services.router.batch.settling import Answer, Ending, Settler
from services.router.batch.store import BlobStore
from services.router.policy.batch import JobLoad, retry_delay_s, share_room, victims

_log = structlog.get_logger(__name__)

_OPEN_JOBS_SEEN = 200
# After refusals that say nothing of the item (no engine, no room) it waits this long where the refusal names no time.
_NO_ROOM_WAIT_S = 1.0
_NO_FAULT_OF_THE_ITEM = frozenset({"NO_ENGINE", "DRAINING", "LANE_LIMIT", "TENANT_LIMIT", "QUEUE_FULL", "QUEUE_TIMEOUT"})
_CLIENT_FAULTS = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"})


class Execute(Protocol):
    """Runs one request on the batch lane. Raises FaultError; cancelling it stops the engine's work."""

    async def __call__(
        self, request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
    ) -> inference_pb2.CompleteResponse:
        """Answer within `deadline_s` seconds."""
        ...


@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """How the runner works. `holder` is unique to this start of this process."""

    holder: str
    max_in_flight: int
    lease_s: float
    poll_interval_s: float
    item_deadline_s: float


@dataclass(frozen=True, kw_only=True)
class _Running:
    claim: Claim
    started_at_s: float
    task: asyncio.Task[None]


class BatchRunner:
    """Owner of every item that this router runs."""

    def __init__(
        self,
        *,
        settings: RunnerSettings,
        database: Database,
        store: BlobStore,
        execute: Execute,
        clock: Clock,
        random: Random,
        next_result_key: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._database = database
        self._store = store
        self._execute = execute
        self._clock = clock
        self._random = random
        self._room = Room(max_in_flight=settings.max_in_flight)
        self._running: dict[tuple[str, int], _Running] = {}
        self._wake = asyncio.Event()
        self._held_back = False
        self._settler = Settler(
            database=database, store=store, clock=clock, next_key=next_result_key, on_settled=self._wake.set
        )

    @property
    def in_flight(self) -> int:
        """Items running here now."""
        return len(self._running)

    def wake(self) -> None:
        """Look for work now: a job was submitted."""
        self._wake.set()

    def hold_back(self, held_back: bool, *, put_back: int = 0) -> None:
        """While realtime work waits, start nothing; `put_back` items end at once and run again later."""
        self._held_back = held_back
        by_start = {f"{job_id}/{index}": running.started_at_s for (job_id, index), running in self._running.items()}
        for name in victims(by_start, put_back):
            job_id, _, index = name.rpartition("/")
            self._running[job_id, int(index)].task.cancel()
        if not held_back:
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; then put back what runs and return when that is durable."""
        settling = asyncio.create_task(self._settler.run(), name="batch-settle")
        keeping = asyncio.create_task(self._keep(), name="batch-keep")
        try:
            while True:
                self._wake.clear()
                await self._guarded(self._start_items)
                await self._wait_for_work()
        finally:
            keeping.cancel()
            tasks = [running.task for running in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(keeping, *tasks, return_exceptions=True)
            self._settler.drain()
            await self._finish_settling(settling)

    async def _finish_settling(self, settling: asyncio.Task[None]) -> None:
        """Wait for the last results to be durable, but not for a store that stays away: their items run again."""
        try:
            async with asyncio.timeout(self._settings.lease_s):
                await settling
        except TimeoutError:
            _log.warning("stopped with results that could not be written; their items will run again")

    async def _wait_for_work(self) -> None:
        try:
            async with asyncio.timeout(self._settings.poll_interval_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do one round; a store that is away costs the round, not the runner."""
        try:
            await work()
        except StoreUnavailableError as error:
            _log.warning("the ledger is away, trying again", error=str(error))

    async def _start_items(self) -> None:
        room = self._room.limit - len(self._running)
        if room <= 0 or self._held_back:
            return
        open_jobs = await self._database.run(lambda connection: jobs.open_jobs(connection, limit=_OPEN_JOBS_SEEN))
        shares = share_room([self._load(job) for job in open_jobs if job.state is not JobState.CANCELLING], room)
        for job_id, count in shares.items():
            for claim in await self._claim(job_id, count):
                self._start(claim)

    def _load(self, job: JobView) -> JobLoad:
        mine = sum(1 for job_id, _ in self._running if job_id == job.job_id)
        return JobLoad(
            job_id=job.job_id,
            tenant=job.tenant,
            priority=job.priority,
            created_at_s=job.created_at_s,
            waiting=job.waiting,
            in_flight=mine,
        )

    async def _claim(self, job_id: str, count: int) -> list[Claim]:
        now_s = self._clock.wall_s()
        return await self._database.run(
            lambda connection: claims.claim_items(
                connection,
                job_id,
                holder=self._settings.holder,
                limit=count,
                now_s=now_s,
                lease_s=self._settings.lease_s,
            )
        )

    def _start(self, claim: Claim) -> None:
        key = (claim.job_id, claim.index)
        task = asyncio.create_task(self._run_item(claim), name=f"batch-item-{claim.job_id}-{claim.index}")
        self._running[key] = _Running(claim=claim, started_at_s=self._clock.monotonic_s(), task=task)
        task.add_done_callback(lambda _: self._ended(key, task))

    def _ended(self, key: tuple[str, int], task: asyncio.Task[None]) -> None:
        running = self._running.get(key)
        if running is not None and running.task is task:
            del self._running[key]
        self._wake.set()

    async def _run_item(self, claim: Claim) -> None:
        try:
            self._settler.put(await self._attempt(claim))
        except asyncio.CancelledError:
            self._settler.put(PutBack(claim=claim))
            raise

    async def _attempt(self, claim: Claim) -> Ending:
        now_s = self._clock.wall_s()
        deadline_s = min(self._settings.item_deadline_s, claim.expire_at_s - now_s)
        try:
            line = parse_line(await self._store.read(claim.payload))
            response = await self._execute(line.request, tenant=claim.tenant, deadline_s=deadline_s)
        except StoreUnavailableError as error:
            _log.warning("an item's payload cannot be read", error=str(error))
            return PutBack(claim=claim, retry_at_s=now_s + _NO_ROOM_WAIT_S)
        except LineError as error:
            return Failure(claim=claim, reason="INVALID_LINE", message=str(error), retry_at_s=None)
        except FaultError as error:
            return self._failed(claim, error.fault)
        except Exception:
            _log.exception("an item failed for a reason of ours", job_id=claim.job_id, index=claim.index)
            return self._later(claim, reason="INTERNAL", message="internal error", retry_after_s=None)
        self._room.succeeded(in_flight=len(self._running))
        return Answer(claim=claim, response=response)

    def _failed(self, claim: Claim, fault: Fault) -> Ending:
        if fault.reason in _NO_FAULT_OF_THE_ITEM:
            self._room.refused()
            wait_s = fault.retry_after_s if fault.retry_after_s is not None else _NO_ROOM_WAIT_S
            return PutBack(claim=claim, retry_at_s=self._clock.wall_s() + wait_s)
        if fault.code.name in _CLIENT_FAULTS or fault.never_retry:
            return Failure(claim=claim, reason=fault.reason, message=fault.message, retry_at_s=None)
        return self._later(claim, reason=fault.reason, message=fault.message, retry_after_s=fault.retry_after_s)

    def _later(self, claim: Claim, *, reason: str, message: str, retry_after_s: float | None) -> Failure:
        delay_s = retry_delay_s(failures=claim.failures + 1, retry_after_s=retry_after_s, jitter=self._random.random())
        retry_at_s = None if delay_s is None else self._clock.wall_s() + delay_s
        return Failure(claim=claim, reason=reason, message=message, retry_at_s=retry_at_s)

    async def _keep(self) -> None:
        """Renew leases, collect those of dead holders, end what was cancelled or has expired."""
        while True:
            await self._guarded(self._keep_once)
            await asyncio.sleep(self._settings.lease_s / 3)

    async def _keep_once(self) -> None:
        now_s, settings = self._clock.wall_s(), self._settings
        await self._database.run(
            lambda connection: claims.renew_leases(connection, holder=settings.holder, now_s=now_s, lease_s=settings.lease_s)
        )
        await self._database.run(lambda connection: claims.reap_leases(connection, now_s=now_s))
        await self._database.run(lambda connection: jobs.expire_jobs(connection, now_s=now_s))
        await self.stop_ended_jobs()

    async def stop_ended_jobs(self) -> None:
        """Cancel running items of jobs that were cancelled or have ended. Raises StoreUnavailableError."""
        held = sorted({job_id for job_id, _ in self._running})
        states = await self._database.run(lambda connection: jobs.job_states(connection, held))
        stopping = {job_id for job_id, state in states.items() if state is JobState.CANCELLING or state in ENDED_JOBS}
        for (job_id, _), running in list(self._running.items()):
            if job_id in stopping:
                running.task.cancel()
