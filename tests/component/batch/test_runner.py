"""The batch lane end to end, on a real ledger and store."""

import asyncio
import json
from pathlib import Path

import grpc
import pytest
from twinlane.inference.v1 import inference_pb2

from libs.rpc.fault import Fault, FaultError
from services.router.batch import jobs
from services.router.batch.domain import IdempotencyConflictError, ItemState, JobState, JobUnknownError
from services.router.batch.submit import JobFaultsError
from tests.component.batch.lane import echo, line, lines, open_lane, running


def test_job_runs_every_item_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_lane(tmp_path) as lane:
            await lane.submit(lines(500))
            async with running(lane.runner(echo)):
                view = await lane.wait_ended()
            ended = await lane.ended()
            assert view.state is JobState.COMPLETED
            assert (view.succeeded, view.prompt_tokens, view.completion_tokens) == (500, 1500, 1000)
            assert [item.seq for item in ended] == list(range(500))
            assert {item.custom_id for item in ended} == {f"item-{number}" for number in range(500)}
            result = ended[17].result
            assert result is not None
            stored = json.loads(await lane.store.read(result))
            assert stored["custom_id"] == ended[17].custom_id
            assert stored["response"]["text"] == f"prompt {ended[17].index}"

    asyncio.run(scenario())


def test_two_runners_share_a_job_without_doing_an_item_twice(tmp_path: Path) -> None:
    calls: list[str] = []

    async def slow(request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float) -> inference_pb2.CompleteResponse:
        calls.append(request.prompt)
        await asyncio.sleep(0)
        return await echo(request, tenant=tenant, deadline_s=deadline_s)

    async def scenario() -> None:
        async with open_lane(tmp_path) as lane:
            await lane.submit(lines(200))
            async with running(lane.runner(slow, holder="a"), lane.runner(slow, holder="b")):
                await lane.wait_ended()
            assert sorted(calls) == sorted(f"prompt {number}" for number in range(200))

    asyncio.run(scenario())


def test_item_that_keeps_failing_is_listed_after_three_retries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: dict[str, int] = {}

    async def flaky(
        request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
    ) -> inference_pb2.CompleteResponse:
        attempts[request.prompt] = attempts.get(request.prompt, 0) + 1
        if request.prompt == "bad" or attempts[request.prompt] < 2:
            raise FaultError(Fault(code=grpc.StatusCode.ABORTED, reason="ENGINE_LOST", message="engine-1 is gone"))
        return await echo(request, tenant=tenant, deadline_s=deadline_s)

    monkeypatch.setattr("services.router.batch.runner.retry_delay_s", lambda *, failures, **_: None if failures > 3 else 0.0)

    async def scenario() -> None:
        async with open_lane(tmp_path) as lane:
            await lane.submit([line("a", "good"), line("b", "bad")])
            async with running(lane.runner(flaky)):
                view = await lane.wait_ended()
            by_id = {item.custom_id: item for item in await lane.ended()}
            assert view.state is JobState.COMPLETED
            assert (by_id["a"].state, by_id["a"].attempts) == (ItemState.SUCCEEDED, 2)
            assert (by_id["b"].state, by_id["b"].attempts) == (ItemState.FAILED, 4)
            assert (by_id["b"].reason, by_id["b"].message) == ("ENGINE_LOST", "engine-1 is gone")

    asyncio.run(scenario())


def test_client_fault_is_not_retried(tmp_path: Path) -> None:
    async def refuse(
        request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
    ) -> inference_pb2.CompleteResponse:
        raise FaultError(Fault(code=grpc.StatusCode.INVALID_ARGUMENT, reason="PROMPT_TOO_LONG", message="too long"))

    async def scenario() -> None:
        async with open_lane(tmp_path) as lane:
            await lane.submit([line("a")])
            async with running(lane.runner(refuse)):
                await lane.wait_ended()
            (item,) = await lane.ended()
            assert (item.state, item.reason, item.attempts) == (ItemState.FAILED, "PROMPT_TOO_LONG", 1)

    asyncio.run(scenario())


def test_cancel_while_running_lists_the_rest_as_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def hang(
            request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
        ) -> inference_pb2.CompleteResponse:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

        async with open_lane(tmp_path) as lane:
            await lane.submit(lines(20))
            runner = lane.runner(hang)
            async with running(runner):
                await started.wait()
                now_s = lane.clock.wall_s()
                for _ in range(2):
                    await lane.database.run(lambda connection: jobs.request_cancel(connection, "acme", "job-1", now_s=now_s))
                await runner.stop_ended_jobs()
                view = await lane.wait_ended()
            assert cancelled.is_set()
            assert (view.state, view.cancelled, view.running) == (JobState.CANCELLED, 20, 0)
            assert {item.state for item in await lane.ended()} == {ItemState.CANCELLED}

    asyncio.run(scenario())


def test_stopped_runner_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def hang(
            request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
        ) -> inference_pb2.CompleteResponse:
            await asyncio.Event().wait()
            raise AssertionError

        async with open_lane(tmp_path) as lane:
            await lane.submit(lines(64))
            async with running(lane.runner(hang, holder="a", max_in_flight=64)):
                await lane.wait_until(lambda view: view.running > 0)
            assert (await lane.job()).running == 0
            async with running(lane.runner(echo, holder="b", max_in_flight=64)):
                view = await lane.wait_ended()
            assert (view.state, view.succeeded) == (JobState.COMPLETED, 64)

    asyncio.run(scenario())


def test_same_submission_twice_is_one_job_and_other_content_conflicts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_lane(tmp_path) as lane:
            first, existed = await lane.submit(lines(3), lane.new_job("job-1", key="k"))
            assert not existed
            again, existed = await lane.submit(lines(3), lane.new_job("job-2", key="k"))
            assert existed
            assert again.job_id == first.job_id
            with pytest.raises(IdempotencyConflictError):
                await lane.submit(lines(4), lane.new_job("job-3", key="k"))
            other, existed = await lane.submit(lines(4), lane.new_job("job-4", tenant="other", key="k"))
            assert not existed
            with pytest.raises(JobUnknownError):
                await lane.job(other.job_id, tenant="acme")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("content", "path", "words"),
    [
        pytest.param("{", "lines[1]", "is not JSON", id="not-json"),
        pytest.param('{"custom_id": "a", "request": {"prompt": "x"}, "n": 1}', "lines[1].n", "unknown key", id="unknown-key"),
        pytest.param('{"custom_id": "a", "request": {"promt": "x"}}', "lines[1].request", "promt", id="unknown-field"),
        pytest.param('{"request": {"prompt": "x"}}', "lines[1].custom_id", "must be a text", id="no-custom-id"),
        pytest.param(line("a") + "\n" + line("a"), "lines[2].custom_id", "was used before", id="duplicate"),
        pytest.param("\n\n", "lines", "there is no line", id="empty"),
        pytest.param('{"custom_id": "a", "body": {"messages": []}}', "lines[1].body.messages", "at least one", id="openai"),
    ],
)
def test_faulty_line_refuses_the_job_and_names_the_place(tmp_path: Path, content: str, path: str, words: str) -> None:
    async def scenario() -> None:
        async with open_lane(tmp_path) as lane:
            with pytest.raises(JobFaultsError) as caught:
                await lane.submit([content])
            ((found, description),) = caught.value.faults
            assert found == path
            assert words in description
            with pytest.raises(JobUnknownError):
                await lane.job()

    asyncio.run(scenario())
