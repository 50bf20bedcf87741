"""`twinlane up --engine sim --job` as a process: what a newcomer's first command does."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.mesh import running_mesh
from libs.config.environ import child

_LIMIT_S = 60.0


def test_up_with_job_prints_tables_and_exits_0(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cli.main", "up", "--engine", "sim", "--job", "--exit-after-job", "--port-base", "0"]
    ended = subprocess.run(
        [*command, "--data", str(tmp_path)],
        env=child({"COLUMNS": "160"}),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {cells[0]: cells for cells in _rows(ended.stdout)}
    assert rows["realtime"][1:3] == ["240", "0"]
    assert rows["batch"][1:3] == ["18", "0"]
    assert rows["realtime-1"][1] == "serving"
    assert not list(tmp_path.glob("run/*/mesh.json"))


def test_up_interrupted_stops_every_process(tmp_path: Path) -> None:
    with running_mesh(engine="sim", data=tmp_path) as mesh:
        pids = [mesh.part(name).pid for name in ("router", "realtime-1", "batch-1", "controller")]
        mesh.process.send_signal(signal.SIGINT)
        assert mesh.process.wait(_LIMIT_S) == 0, mesh.output()
    assert [pid for pid in pids if _lives(pid)] == []


def test_job_json_reports_both_lanes(tmp_path: Path) -> None:
    with running_mesh(engine="sim", data=tmp_path) as mesh:
        command = [sys.executable, "-m", "cli.main", "job", "--json", "--tickets", "20", "--tickets-per-s", "50"]
        ended = subprocess.run(
            [*command, "--router", mesh.router, "--controller", mesh.controller],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
    lanes = json.loads(ended.stdout)["lanes"]
    assert {name: (lane["count"], lane["errors"]) for name, lane in lanes.items()} == {"realtime": (20, 0), "batch": (18, 0)}


def _rows(output: str) -> list[list[str]]:
    """Return the words of every line in the output."""
    return [words for line in output.splitlines() if (words := line.split())]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
