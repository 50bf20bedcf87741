"""The batch lane's ledger path: how fast, how much memory, and what random kills do to it.

    python -m bench.batch_lane [--items 50000] [--kill-rounds 100] [--postgresql URL]

Engines answer at once, so that what is measured is submission, claims, results and the ledger. The last line is one JSON
object: items per second on each database, memory growth of the process while it submits and runs, overhead per item, and
over the kill rounds how many items were lost or listed twice.
"""

import argparse
import asyncio
import json
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

from libs.core.clock import SystemClock
from services.router.batch import jobs, results
from services.router.batch.database import Database
from services.router.batch.domain import ENDED_JOBS, JobKind, JobView, NewJob
from services.router.batch.store import open_store
from services.router.batch.submit import Submission

_CLOCK = SystemClock()
_PIECE_LINES = 500
_PATIENCE_S = 300.0
_TENANT = "bench"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one lane keeps its things."""

    url: str
    folder: str


def job_lines(count: int) -> Iterator[bytes]:
    """Yield pieces of a job of `count` lines."""
    for start in range(0, count, _PIECE_LINES):
        numbers = range(start, min(start + _PIECE_LINES, count))
        yield "".join(
            json.dumps({"custom_id": f"item-{number}", "request": {"prompt": f"Summarise report {number}."}}) + "\n"
            for number in numbers
        ).encode()


async def submit(place: Place, count: int) -> str:
    """Submit a job; returns its id."""
    database = Database(place.url)
    await database.open()
    now_s = _CLOCK.wall_s()
    job = NewJob(
        job_id=f"job-{uuid4().hex}",
        kind=JobKind.JOB,
        tenant=_TENANT,
        idempotency_key=uuid4().hex,
        content_digest="",
        display_name="bench",
        line_format=0,
        priority=0,
        created_at_s=now_s,
        expire_at_s=now_s + 3600,
    )
    submission = Submission(job=job, database=database, store=open_store(place.folder), check=lambda _: None)
    await submission.start()
    for piece in job_lines(count):
        await submission.feed(piece)
    await submission.finish()
    await database.close()
    return job.job_id


async def read(place: Place, job_id: str) -> JobView:
    """Return the job."""
    database = Database(place.url)
    try:
        return await database.run(lambda connection: jobs.read_job(connection, _TENANT, job_id, JobKind.JOB))
    finally:
        await database.close()


async def listed(place: Place, job_id: str) -> Counter[str]:
    """Return how often each custom id is listed in the stored results."""
    database, store = Database(place.url), open_store(place.folder)
    counts: Counter[str] = Counter()
    seq = 0
    while rows := await database.run(partial(results.read_ended, job_id=job_id, from_seq=seq, limit=1000)):
        for row in rows:
            assert row.result is not None
            counts[json.loads(await store.read(row.result))["custom_id"]] += 1
        seq += len(rows)
    await database.close()
    return counts


def start_worker(place: Place, holder: str, *, answer_ms: float, in_flight: int) -> subprocess.Popen[bytes]:
    """Start a batch lane process."""
    command = [sys.executable, "-m", "bench.batch_worker", place.url, place.folder, holder, str(answer_ms), str(in_flight)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def wait_ended(place: Place, job_id: str) -> None:
    """Return when the job has ended. Raises TimeoutError."""
    async with asyncio.timeout(_PATIENCE_S):
        while (await read(place, job_id)).state not in ENDED_JOBS:  # noqa: ASYNC110  # the ledger is polled, as any reader would
            await asyncio.sleep(0.1)


def peak_memory_mib(who: int) -> float:
    """Return the peak resident memory of this process or of its ended children."""
    return resource.getrusage(who).ru_maxrss / 1024


async def measure(place: Place, items: int) -> dict[str, float]:
    """Submit and run one job; returns rates."""
    before_s = _CLOCK.monotonic_s()
    job_id = await submit(place, items)
    submitted_s = _CLOCK.monotonic_s()
    worker = start_worker(place, "router-1", answer_ms=0, in_flight=512)
    try:
        await wait_ended(place, job_id)
    finally:
        worker.terminate()
        worker.wait()
    done_s = _CLOCK.monotonic_s()
    return {
        "submit_items_per_s": round(items / (submitted_s - before_s), 1),
        "run_items_per_s": round(items / (done_s - submitted_s), 1),
        "overhead_us_per_item": round((done_s - submitted_s) / items * 1e6, 1),
    }


async def kill_rounds(place: Place, *, rounds: int, items: int, random: Random) -> dict[str, int]:
    """Run jobs while killing the worker at random moments; returns what was lost or listed twice."""
    kills = lost = duplicated = jobs_run = 0
    while kills < rounds:
        job_id = await submit(place, items)
        jobs_run += 1
        while kills < rounds and (await read(place, job_id)).state not in ENDED_JOBS:
            worker = start_worker(place, f"router-{kills}", answer_ms=5, in_flight=64)
            # From before its first claim to well into its work; start-up of Python takes about half a second.
            await asyncio.sleep(random.uniform(0.4, 1.6))
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            kills += 1
        worker = start_worker(place, "router-last", answer_ms=0, in_flight=64)
        try:
            await wait_ended(place, job_id)
        finally:
            worker.terminate()
            worker.wait()
        counts = await listed(place, job_id)
        lost += items - len(counts)
        duplicated += sum(count - 1 for count in counts.values())
    return {"kill_rounds": kills, "kill_jobs": jobs_run, "lost": lost, "duplicated": duplicated}


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--kill-rounds", type=int, default=100)
    parser.add_argument("--kill-items", type=int, default=2_000)
    parser.add_argument("--postgresql", help="SQLAlchemy URL of an empty database, postgresql+psycopg://…")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        report: dict[str, object] = {"items": arguments.items}
        memory_before = peak_memory_mib(resource.RUSAGE_SELF)
        sqlite = Place(url=f"sqlite:///{root}/rates.db", folder=str(root / "rates"))
        report["sqlite"] = await measure(sqlite, arguments.items)
        report["submit_memory_growth_mib"] = round(peak_memory_mib(resource.RUSAGE_SELF) - memory_before, 1)
        report["run_peak_memory_mib"] = round(peak_memory_mib(resource.RUSAGE_CHILDREN), 1)
        if arguments.postgresql:
            report["postgresql"] = await measure(Place(url=arguments.postgresql, folder=str(root / "pg")), arguments.items)
        kills = Place(url=f"sqlite:///{root}/kills.db", folder=str(root / "kills"))
        report |= await kill_rounds(kills, rounds=arguments.kill_rounds, items=arguments.kill_items, random=Random(7))
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
