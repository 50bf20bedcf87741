"""The main job: tickets arrive one by one on the realtime lane while all documents wait on the batch lane."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import grpc
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc

from cli.job.samples import LaneSummary, Sample, summarise
from libs.core.clock import Clock
from libs.core.lanes import Lane
from libs.rpc.fault import read_fault

# Longer than any answer takes on a slow machine; a request that needs more is an error in the table.
_REQUEST_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class LaneLoad:
    """What one lane is given: requests, how fast they arrive, and how many may be in flight at once."""

    lane: Lane
    requests: Sequence[inference_pb2.GenerateRequest]
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

    def __init__(self, channel: grpc.aio.Channel, *, clock: Clock, progress: Callable[[Sample], None]) -> None:
        self._stub = inference_pb2_grpc.InferenceServiceStub(channel)
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

    async def _run_one(self, lane: Lane, request: inference_pb2.GenerateRequest, slots: asyncio.Semaphore) -> Sample:
        try:
            sample = await self._measure(lane, request)
        finally:
            slots.release()
        self._progress(sample)
        return sample

    async def _measure(self, lane: Lane, request: inference_pb2.GenerateRequest) -> Sample:
        begun_s = self._clock.monotonic_s()
        first_token_ms: float | None = None
        tokens, error = 0, ""
        try:
            async for response in self._stub.Generate(request, timeout=_REQUEST_TIMEOUT_S):
                if first_token_ms is None:
                    first_token_ms = (self._clock.monotonic_s() - begun_s) * 1000
                tokens += len(response.delta.token_ids)
        except grpc.aio.AioRpcError as failed:
            fault = read_fault(failed)
            error = fault.reason if fault.reason != "UNKNOWN" else fault.code.name
        total_ms = (self._clock.monotonic_s() - begun_s) * 1000
        return Sample(lane=lane, first_token_ms=first_token_ms, total_ms=total_ms, completion_tokens=tokens, error=error)
