"""The job runner through the client, against a fake router."""

import asyncio

from cli.job.requests import JobRequest
from cli.job.run import JobResult, JobRunner, LaneLoad
from cli.job.samples import Sample
from libs.client.client import TwinlaneClient
from libs.client.events import ChatMessage, RequestOptions
from libs.client.retry import RetryPolicy
from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from tests.component.cli.fake_mesh import REFUSED_PROMPT, FakeController


def _request(text: str) -> JobRequest:
    return JobRequest(messages=(ChatMessage(role="user", content=text),), options=RequestOptions(max_new_tokens=3))


def _load(lane: Lane, *texts: str) -> LaneLoad:
    return LaneLoad(lane=lane, requests=[_request(text) for text in texts], arrivals_per_s=None, max_in_flight=2)


def _run(address: str, *loads: LaneLoad) -> tuple[JobResult, list[Sample]]:
    samples: list[Sample] = []

    async def run() -> JobResult:
        async with TwinlaneClient.connect(address, policy=RetryPolicy(max_attempts=1)) as client:
            return await JobRunner(client, clock=SystemClock(), progress=samples.append).run(loads)

    return asyncio.run(run()), samples


def test_run_two_lanes_summarises_each(mesh: FakeController) -> None:
    result, samples = _run(mesh.address, _load(Lane.REALTIME, "a", "b", "c"), _load(Lane.BATCH, "d"))
    assert [(lane.lane, lane.count, lane.error_count) for lane in result.lanes] == [(Lane.REALTIME, 3, 0), (Lane.BATCH, 1, 0)]
    assert [sample.completion_tokens for sample in samples] == [3, 3, 3, 3]


def test_run_refused_request_is_counted_by_reason_and_disturbs_no_other(mesh: FakeController) -> None:
    result, _ = _run(mesh.address, _load(Lane.REALTIME, "a", REFUSED_PROMPT, "b"))
    (lane,) = result.lanes
    assert lane.errors == {"QUEUE_FULL": 1}
    assert lane.count == 3
