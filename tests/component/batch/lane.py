"""A batch lane on SQLite and a local folder, with engines that a test plays."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import Clock, SystemClock
from services.router.batch import jobs, results
from services.router.batch.database import Database
from services.router.batch.domain import ENDED_JOBS, EndedItem, JobKind, JobView, NewJob
from services.router.batch.runner import BatchRunner, Execute, RunnerSettings
from services.router.batch.store import BlobStore, open_store
from services.router.batch.submit import Submission

HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Ledger and store of one test."""

    database: Database
    store: BlobStore
    clock: Clock

    def new_job(
        self, job_id: str = "job-1", *, tenant: str = "acme", key: str | None = None, window_s: float = HOUR_S
    ) -> NewJob:
        now_s = self.clock.wall_s()
        return NewJob(
            job_id=job_id,
            kind=JobKind.JOB,
            tenant=tenant,
            idempotency_key=key or job_id,
            content_digest="spec",
            display_name="",
            line_format=0,
            priority=0,
            created_at_s=now_s,
            expire_at_s=now_s + window_s,
        )

    async def submit(self, lines: Sequence[str], job: NewJob | None = None) -> tuple[JobView, bool]:
        submission = Submission(job=job or self.new_job(), database=self.database, store=self.store, check=lambda _: None)
        await submission.start()
        await submission.feed("\n".join(lines).encode())
        return await submission.finish()

    def runner(
        self, execute: Execute, *, holder: str = "router-1", max_in_flight: int = 8, lease_s: float = 30.0
    ) -> BatchRunner:
        numbers = count()
        return BatchRunner(
            settings=RunnerSettings(
                holder=holder, max_in_flight=max_in_flight, lease_s=lease_s, poll_interval_s=0.05, item_deadline_s=60.0
            ),
            database=self.database,
            store=self.store,
            execute=execute,
            clock=self.clock,
            random=Random(1),
            next_result_key=lambda job_id: f"jobs/{job_id}/results-{holder}-{next(numbers)}.jsonl",
        )

    async def job(self, job_id: str = "job-1", tenant: str = "acme") -> JobView:
        return await self.database.run(lambda connection: jobs.read_job(connection, tenant, job_id, JobKind.JOB))

    async def ended(self, job_id: str = "job-1") -> list[EndedItem]:
        return await self.database.run(lambda connection: results.read_ended(connection, job_id, from_seq=0, limit=100_000))

    async def wait_until(self, is_reached: Callable[[JobView], bool], job_id: str = "job-1") -> JobView:
        async with asyncio.timeout(30):
            while not is_reached(view := await self.job(job_id)):  # noqa: ASYNC110  # the ledger is polled, as any reader would
                await asyncio.sleep(0.01)
            return view

    async def wait_ended(self, job_id: str = "job-1") -> JobView:
        return await self.wait_until(lambda view: view.state in ENDED_JOBS, job_id)


@asynccontextmanager
async def open_lane(folder: Path, *, url: str | None = None, clock: Clock | None = None) -> AsyncIterator[Lane]:
    database = Database(url or f"sqlite:///{folder}/ledger.db")
    await database.open()
    try:
        yield Lane(database=database, store=open_store(str(folder / "objects")), clock=clock or SystemClock())
    finally:
        await database.close()


@asynccontextmanager
async def running(*runners: BatchRunner) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def line(custom_id: str, prompt: str = "hello") -> str:
    return json.dumps({"custom_id": custom_id, "request": {"prompt": prompt}})


def lines(count_: int) -> list[str]:
    return [line(f"item-{number}", f"prompt {number}") for number in range(count_)]


async def echo(request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float) -> inference_pb2.CompleteResponse:
    """An engine that answers at once with the prompt."""
    return inference_pb2.CompleteResponse(
        request_id="r",
        text=request.prompt,
        finish_reason=generation_pb2.FINISH_REASON_STOP,
        usage=generation_pb2.Usage(prompt_tokens=3, completion_tokens=2),
    )
