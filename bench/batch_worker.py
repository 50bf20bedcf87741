"""One batch lane process for the benchmark.

    python -m bench.batch_worker DATABASE_URL STORE_FOLDER HOLDER ANSWER_MS IN_FLIGHT

Runs what the ledger has, with an engine that answers after a given time, until killed.
"""

import asyncio
import sys
from itertools import count
from random import Random

from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import SystemClock
from services.router.batch.database import Database
from services.router.batch.runner import BatchRunner, RunnerSettings
from services.router.batch.store import open_store

# Short, so that what a killed process held runs again within the benchmark's patience.
_LEASE_S = 1.0


class TimedEngine:
    """Answers each request after the same time."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s

    async def __call__(
        self, request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
    ) -> inference_pb2.CompleteResponse:
        """Answer with the prompt."""
        await asyncio.sleep(self._answer_s)
        return inference_pb2.CompleteResponse(
            text=request.prompt,
            finish_reason=generation_pb2.FINISH_REASON_STOP,
            usage=generation_pb2.Usage(prompt_tokens=8, completion_tokens=8),
        )


async def work(url: str, folder: str, holder: str, answer_s: float, in_flight: int) -> None:
    """Run until cancelled."""
    database = Database(url)
    await database.open()
    numbers = count()
    runner = BatchRunner(
        settings=RunnerSettings(
            holder=holder, max_in_flight=in_flight, lease_s=_LEASE_S, poll_interval_s=0.05, item_deadline_s=60.0
        ),
        database=database,
        store=open_store(folder),
        execute=TimedEngine(answer_s),
        clock=SystemClock(),
        random=Random(0),
        next_result_key=lambda job_id: f"jobs/{job_id}/results-{holder}-{next(numbers)}.jsonl",
    )
    await runner.run()


if __name__ == "__main__":
    _, url_, folder_, holder_, answer_ms_, in_flight_ = sys.argv
    asyncio.run(work(url_, folder_, holder_, float(answer_ms_) / 1000, int(in_flight_)))
