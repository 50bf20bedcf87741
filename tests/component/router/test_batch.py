"""BatchService of a real router, engines played by the test."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from twinlane.batch.v1 import batch_pb2, batch_pb2_grpc

from libs.rpc.fault import read_fault
from services.router.config import BatchConfig
from tests.component.batch.lane import line, lines
from tests.component.router.fakes import FakeEngine, Mesh, batch, open_mesh, realtime, wait_for

OPENAI_LINE = json.dumps(
    {
        "custom_id": "chat-1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
    }
)


@asynccontextmanager
async def batch_mesh(folder: Path, *engines: FakeEngine) -> AsyncIterator[tuple[Mesh, Any]]:
    config = BatchConfig(ledger=f"sqlite:///{folder}/ledger.db", store=str(folder / "objects"), lease_s=5.0)
    async with open_mesh(*engines, jobs=config) as mesh:
        yield mesh, batch_pb2_grpc.BatchServiceStub(mesh.channel)


def submission(content: list[str], *, key: str = "k", **spec: Any) -> Iterator[batch_pb2.SubmitJobRequest]:
    """A job in pieces that end anywhere."""
    raw = "\n".join(content).encode()
    yield batch_pb2.SubmitJobRequest(spec=batch_pb2.JobSpec(idempotency_key=key, **spec))
    for start in range(0, len(raw), 37):
        yield batch_pb2.SubmitJobRequest(lines=raw[start : start + 37])


async def watch_to_end(stub: Any, job_id: str) -> batch_pb2.Job:
    job: batch_pb2.Job | None = None
    async for message in stub.WatchJob(batch_pb2.WatchJobRequest(job_id=job_id)):
        job = message.job
    assert job is not None
    return job


async def reason_of(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    fault = read_fault(caught.value)
    return fault.code, fault.reason


def test_job_runs_on_the_batch_lane_and_lists_every_item_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        engines = realtime(), batch()
        async with batch_mesh(tmp_path, *engines) as (_, stub):
            submitted = await stub.SubmitJob(submission(lines(40)))
            job = await watch_to_end(stub, submitted.job.job_id)
            results = [
                message async for message in stub.ReadResults(batch_pb2.ReadResultsRequest(job_id=job.job_id, ordered=True))
            ]
            assert (job.state, job.progress.succeeded, job.progress.total) == (batch_pb2.JOB_STATE_COMPLETED, 40, 40)
            assert [message.custom_id for message in results] == [f"item-{number}" for number in range(40)]
            assert [message.offset for message in results] == list(range(40))
            assert {json.loads(message.line)["response"]["text"] for message in results} == {"hello world"}
            assert (len(engines[0].requests), len(engines[1].requests)) == (0, 40)

    asyncio.run(scenario())


def test_openai_lines_come_back_as_openai_lines(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with batch_mesh(tmp_path, batch()) as (_, stub):
            submitted = await stub.SubmitJob(submission([OPENAI_LINE], format=batch_pb2.LINE_FORMAT_OPENAI))
            job = await watch_to_end(stub, submitted.job.job_id)
            (result,) = [message async for message in stub.ReadResults(batch_pb2.ReadResultsRequest(job_id=job.job_id))]
            written = json.loads(result.line)
            assert (written["custom_id"], written["error"]) == ("chat-1", None)
            assert written["response"]["body"]["choices"][0]["message"]["content"] == "hello world"
            assert written["response"]["body"]["usage"]["completion_tokens"] == 2

    asyncio.run(scenario())


def test_faulty_lines_are_named_and_nothing_is_accepted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with batch_mesh(tmp_path, batch()) as (_, stub):
            bad = [line("a"), "{", json.dumps({"custom_id": "c", "request": {"prompt": "x", "model": "other"}})]
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.SubmitJob(submission(bad))
            fault = read_fault(caught.value)
            assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_LINES")
            assert [violation.field for violation in fault.violations] == ["lines[2]", "lines[3].request.model"]
            assert not (await stub.ListJobs(batch_pb2.ListJobsRequest())).jobs

    asyncio.run(scenario())


def test_jobs_of_other_tenants_are_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with batch_mesh(tmp_path, batch()) as (_, stub):
            mine = (("x-tenant", "mine"),)
            job_id = (await stub.SubmitJob(submission(lines(2)), metadata=mine)).job.job_id
            assert (await stub.GetJob(batch_pb2.GetJobRequest(job_id=job_id), metadata=mine)).job.job_id == job_id
            for call in (
                stub.GetJob(batch_pb2.GetJobRequest(job_id=job_id)),
                stub.CancelJob(batch_pb2.CancelJobRequest(job_id=job_id)),
                stub.WatchJob(batch_pb2.WatchJobRequest(job_id=job_id)).read(),
                stub.ReadResults(batch_pb2.ReadResultsRequest(job_id=job_id)).read(),
            ):
                assert await reason_of(call) == (grpc.StatusCode.NOT_FOUND, "JOB_UNKNOWN")
            assert not (await stub.ListJobs(batch_pb2.ListJobsRequest())).jobs

    asyncio.run(scenario())


def test_cancel_stops_running_items_and_is_idempotent(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = batch()

        async def hang(request: Any, context: Any) -> None:
            await asyncio.Event().wait()

        engine.act = hang
        async with batch_mesh(tmp_path, engine) as (_, stub):
            job_id = (await stub.SubmitJob(submission(lines(10)))).job.job_id
            await wait_for(lambda: len(engine.requests) > 0)
            await stub.CancelJob(batch_pb2.CancelJobRequest(job_id=job_id))
            async with asyncio.timeout(2):
                await engine.cancelled.wait()
            job = await watch_to_end(stub, job_id)
            again = (await stub.CancelJob(batch_pb2.CancelJobRequest(job_id=job_id))).job
            assert (job.state, again.state) == (batch_pb2.JOB_STATE_CANCELLED, batch_pb2.JOB_STATE_CANCELLED)
            assert job.progress.cancelled == 10

    asyncio.run(scenario())


def test_same_key_is_one_job_and_other_content_conflicts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with batch_mesh(tmp_path, batch()) as (_, stub):
            first = await stub.SubmitJob(submission(lines(2)))
            again = await stub.SubmitJob(submission(lines(2)))
            assert (again.job.job_id, again.already_submitted) == (first.job.job_id, True)
            conflict = await reason_of(stub.SubmitJob(submission(lines(3))))
            assert conflict == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"key": ""}, "spec.idempotency_key", id="no-key"),
        pytest.param({"priority": 101}, "spec.priority", id="priority"),
        pytest.param({"completion_window": Duration(seconds=1)}, "spec.completion_window", id="window"),
    ],
)
def test_bad_spec_names_its_field(tmp_path: Path, spec: dict[str, Any], field: str) -> None:
    async def scenario() -> None:
        async with batch_mesh(tmp_path, batch()) as (_, stub):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.SubmitJob(submission(lines(1), **spec))
            fault = read_fault(caught.value)
            assert [violation.field for violation in fault.violations] == [field]

    asyncio.run(scenario())


def test_item_waits_for_an_engine_to_come(tmp_path: Path) -> None:
    async def scenario() -> None:
        late = batch()
        await late.start()
        async with batch_mesh(tmp_path, realtime()) as (mesh, stub):
            job_id = (await stub.SubmitJob(submission(lines(3)))).job.job_id
            await mesh.publish(late)
            job = await watch_to_end(stub, job_id)
            assert (job.state, job.progress.succeeded) == (batch_pb2.JOB_STATE_COMPLETED, 3)
        await late.kill()

    asyncio.run(scenario())


def test_router_without_a_batch_table_has_no_batch_service() -> None:
    async def scenario() -> None:
        async with open_mesh(batch()) as mesh:
            stub: Any = batch_pb2_grpc.BatchServiceStub(mesh.channel)
            code, _ = await reason_of(stub.ListJobs(batch_pb2.ListJobsRequest()))
            assert code is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(scenario())
