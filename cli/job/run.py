"""The main job: tickets arrive one by one on the realtime lane while all documents wait on the batch lane."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cli.job.requests import JobRequest
from cli.job.samples import LaneSummary, Sample, summarise
from libs.client.client import TwinlaneClient
from libs.client.errors import TwinlaneError
from libs.client.events import Delta
from libs.core.clock import Clock
from libs.core.lanes import Lane


@dataclass(frozen=True, kw_only=True)
class LaneLoad:
    """What one lane is given: requests, how fast they arrive, and how many may be in flight at once."""

    lane: Lane
    requests: Sequence[JobRequest]
    # Requests per second; None: all at once.
    arrivals_per_s: float | None
    max_in_flight: int


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """Summaries in the order of the loads."""

    lanes: tuple[LaneSummary, ...]
    elapsed_s: float


class JobRunner:
    """Runs loads through one router. `progress` is called with each finished request."""

    def __init__(self, client: TwinlaneClient, *, clock: Clock, progress: Callable[[Sample], None]) -> None:
        self._client = client
        self._clock = clock
        self._progress = progress

    async def run(self, loads: Iterable[LaneLoad]) -> JobResult:
        """Run all loads at once and return what came out. Failed requests are counted, never raised."""
        begun_s = self._clock.monotonic_s()
        lanes = await asyncio.gather(*(self._run_lane(load) for load in loads))
        return JobResult(lanes=tuple(lanes), elapsed_s=self._clock.monotonic_s() - begun_s)

    async def _run_lane(self, load: LaneLoad) -> LaneSummary:
        begun_s = self._clock.monotonic_s()
        slots = asyncio.Semaphore(load.max_in_flight)
        interval_s = 0.0 if load.arrivals_per_s is None else 1 / load.arrivals_per_s
        async with asyncio.TaskGroup() as group:
            tasks = []
            for index, request in enumerate(load.requests):
                await asyncio.sleep(begun_s + index * interval_s - self._clock.monotonic_s())
                await slots.acquire()
                tasks.append(group.create_task(self._run_one(load.lane, request, slots)))
        samples = [task.result() for task in tasks]
        return summarise(samples, load.lane, elapsed_s=self._clock.monotonic_s() - begun_s)

    async def _run_one(self, lane: Lane, request: JobRequest, slots: asyncio.Semaphore) -> Sample:
        try:
            sample = await self._measure(lane, request)
        finally:
            slots.release()
        self._progress(sample)
        return sample

    async def _measure(self, lane: Lane, request: JobRequest) -> Sample:
        begun_s = self._clock.monotonic_s()
        first_token_ms: float | None = None
        tokens, error = 0, ""
        try:
            async for event in self._client.generate(request.messages, request.options):
                if first_token_ms is None:
                    first_token_ms = (self._clock.monotonic_s() - begun_s) * 1000
                tokens += len(event.token_ids) if isinstance(event, Delta) else 0
        except TwinlaneError as failed:
            error = failed.reason if failed.reason != "UNKNOWN" else failed.fault.code.name
        total_ms = (self._clock.monotonic_s() - begun_s) * 1000
        return Sample(lane=lane, first_token_ms=first_token_ms, total_ms=total_ms, completion_tokens=tokens, error=error)
