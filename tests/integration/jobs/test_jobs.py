"""Jobs by the command, on a mesh of processes whose router dies again and again."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from twinlane.batch.v1 import batch_pb2, batch_pb2_grpc

from bench.mesh import Mesh, connect, eventually, running_mesh

_LIMIT_S = 90.0
_ITEMS = 300
_KILLS = 3


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(engine="sim", data=tmp_path_factory.mktemp("jobs")) as running:
        yield running


def twinlane(*arguments: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "cli.main", "jobs", *arguments], capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    assert ended.returncode == expected, ended.stdout + ended.stderr
    return ended


def job_file(folder: Path, count: int) -> Path:
    file = folder / "job.jsonl"
    lines = (
        {"custom_id": f"c-{number}", "request": {"prompt": f"Report {number}", "stopping": {"max_new_tokens": 8}}}
        for number in range(count)
    )
    file.write_text("\n".join(json.dumps(line) for line in lines))
    return file


async def done_count(mesh: Mesh, job_id: str) -> int:
    async with connect(mesh.router) as channel:
        answer = await batch_pb2_grpc.BatchServiceStub(channel).GetJob(batch_pb2.GetJobRequest(job_id=job_id))
    return int(answer.job.progress.succeeded)


def test_router_killed_again_and_again_every_item_is_listed_exactly_once(mesh: Mesh, tmp_path: Path) -> None:
    file = job_file(tmp_path, _ITEMS)
    job_id = json.loads(twinlane("submit", str(file), "--router", mesh.router, "--json").stdout)["job"]["jobId"]

    async def kill_in_the_middle() -> None:
        for kill in range(1, _KILLS + 1):
            enough = _ITEMS * kill // (_KILLS + 2)
            await eventually(lambda: done_count(mesh, job_id), lambda done, enough=enough: done >= enough, limit_s=_LIMIT_S)  # type: ignore[misc]
            mesh.part("router").kill()

    asyncio.run(kill_in_the_middle())
    asyncio.run(eventually(lambda: done_count(mesh, job_id), lambda done: done == _ITEMS, limit_s=_LIMIT_S))

    verified = twinlane("verify", job_id, str(file), "--router", mesh.router)
    assert verified.stdout == f"{job_id}: {_ITEMS} items, each exactly once\n"


def test_submitting_a_file_twice_is_one_job(mesh: Mesh, tmp_path: Path) -> None:
    file = job_file(tmp_path, 3)
    first = twinlane("submit", str(file), "--router", mesh.router, "--watch").stdout
    again = twinlane("submit", str(file), "--router", mesh.router).stdout

    job_id = first.split(":")[0]
    assert again == f"{job_id}: 3 items (submitted before)\n"
    assert "completed" in first
    results = twinlane("results", job_id, "--ordered", "--router", mesh.router).stdout.splitlines()
    assert [json.loads(line)["custom_id"] for line in results] == ["c-0", "c-1", "c-2"]
    assert job_id in twinlane("list", "--router", mesh.router).stdout


def test_faulty_lines_are_listed_one_a_line(mesh: Mesh, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"custom_id": "a", "request": {"prompt": ""}}\nnonsense\n')

    ended = twinlane("submit", str(file), "--router", mesh.router, expected=4)

    lines = ended.stderr.splitlines()
    assert lines[0].endswith("was not accepted:")
    assert lines[1] == "  lines[1].request.prompt: is empty"
    assert lines[2].startswith("  lines[2]: is not JSON")


def test_unknown_job_is_said_in_one_line(mesh: Mesh) -> None:
    ended = twinlane("show", "job-none", "--router", mesh.router, expected=4)

    assert ended.stderr == "twinlane: NOT_FOUND JOB_UNKNOWN: there is no job-none of this tenant\n"
