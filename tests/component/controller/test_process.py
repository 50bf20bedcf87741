"""The controller as a process of its own: its end, and what its death leaves behind."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc

from libs.config import environ

_CONFIG = """
service = "controller"
controller_id = "controller-1"
address = "127.0.0.1:0"
[log]
format = "json"
[journal]
url = "sqlite:///{folder}/controller.db"
"""


def test_process_sigterm_ends_with_0(tmp_path: Path) -> None:
    with _controller(tmp_path) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_process_killed_right_after_a_pause_comes_back_paused(tmp_path: Path) -> None:
    with _controller(tmp_path) as (process, address):
        with grpc.insecure_channel(address) as channel:
            admin_pb2_grpc.ControllerAdminServiceStub(channel).Pause(admin_pb2.PauseRequest(reason="night"), timeout=10)
        process.kill()
        process.wait(timeout=20)
    with _controller(tmp_path) as (_, address), grpc.insecure_channel(address) as channel:
        status = admin_pb2_grpc.ControllerAdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=10)
    assert (status.paused, status.pause_reason, status.controller_epoch) == (True, "night", 2)


@contextmanager
def _controller(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the process; yield it and the address that it says it serves at."""
    file = folder / "controller.toml"
    file.write_text(_CONFIG.format(folder=folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "services.controller.main", "--config", str(file)],
        env=environ.child({"PYTHONPATH": ".:libs/pb"}),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        yield process, line.partition('"address": "')[2].partition('"')[0]
    finally:
        process.kill()
        process.communicate()
