"""The whole mesh on vLLM with the real model, started once for this module."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.mesh import Mesh, connect, running_mesh
from bench.mesh_smoke import measure_cancel
from tests.integration.faults.calls import long_request, read_to_end, wait_answering

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

_GRPCURL = Path(sys.executable).with_name("grpcurl")
_CLEAN = {"FINISHED", "ENGINE_LOST", "NO_ENGINE"}
_STREAMS = 50
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
            streams = [asyncio.create_task(read_to_end(channel, long_request(200))) for _ in range(_STREAMS)]
            await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED, timeout=3)
            mesh.part("realtime-1").kill()
            return [end.reason for end in await asyncio.gather(*streams)]

    reasons = asyncio.run(scenario())
    assert len(reasons) == _STREAMS
    assert set(reasons) <= _CLEAN


def test_restarted_engine_answers_again(mesh: Mesh) -> None:
    asyncio.run(wait_answering(mesh, limit_s=200))
