"""The whole mesh on vLLM with the real model, started once for this module."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.mesh import Mesh, connect, eventually, running_mesh
from bench.mesh_load import read_snapshot
from bench.mesh_smoke import measure_cancel
from tests.integration.faults.calls import long_request, read_to_end, wait_answering

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

_GRPCURL = Path(sys.executable).with_name("grpcurl")
_CLEAN = {"FINISHED", "ENGINE_LOST", "NO_ENGINE"}
_STREAMS = 50
# Long enough for the batch engine alone to answer those that were still waiting, on one core.
_STREAM_TOKENS = 60
_STREAM_LIMIT_S = 150.0
_CANCEL_LIMIT_S = 1.0
_QUESTION = (
    '{"chat":{"messages":[{"role":"user","content":"What is the capital of France?"}]},"stopping":{"max_new_tokens":16}}'
)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(engine="vllm", data=tmp_path_factory.mktemp("real"), model_data=Path("var")) as running:
        yield running


def test_chat_by_grpcurl_answers_with_real_text(mesh: Mesh) -> None:
    done = subprocess.run(
        [_GRPCURL, "-plaintext", "-d", _QUESTION, mesh.router, "twinlane.inference.v1.InferenceService/Complete"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Paris" in json.loads(done.stdout)["text"]


def test_cancelled_call_frees_its_slot_within_a_second(mesh: Mesh) -> None:
    assert asyncio.run(measure_cancel(mesh)) < _CANCEL_LIMIT_S


def test_engine_killed_during_50_streams_gives_clean_outcomes(mesh: Mesh) -> None:
    async def scenario() -> list[str]:
        async with connect(mesh.router) as channel:
            streams = [
                asyncio.create_task(read_to_end(channel, long_request(_STREAM_TOKENS), limit_s=_STREAM_LIMIT_S))
                for _ in range(_STREAMS)
            ]
            await _until_generating(mesh)
            mesh.part("realtime-1").kill()
            return [end.reason for end in await asyncio.gather(*streams)]

    reasons = asyncio.run(scenario())
    assert len(reasons) == _STREAMS
    assert set(reasons) <= _CLEAN


async def _until_generating(mesh: Mesh) -> None:
    """Return when the realtime engine generates for several streams."""

    async def running() -> int:
        snapshot = await read_snapshot(mesh.part("realtime-1").address)
        return sum(lane.running for lane in snapshot.lanes)

    await eventually(running, lambda count: count > 4, limit_s=_STREAM_LIMIT_S)


@pytest.mark.xfail(
    raises=TimeoutError,
    strict=False,
    reason="in one of six runs the engine that was started again wrote nothing and never registered; cause not found",
)
def test_restarted_engine_answers_again(mesh: Mesh) -> None:
    asyncio.run(wait_answering(mesh, limit_s=200))
