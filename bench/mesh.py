"""A whole mesh as processes, started by `twinlane up` on free ports; for benchmarks and integration tests."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc

from libs.core.clock import Clock, SystemClock
from libs.rpc.channel import open_channel

# The real model takes about a minute on two cores; the first preparation of the model half a minute more.
START_LIMIT_S = {"sim": 30.0, "vllm": 300.0}
_STOP_LIMIT_S = 45.0
_POLL_INTERVAL_S = 0.05
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

ValueT = TypeVar("ValueT")


class MeshError(RuntimeError):
    """The mesh did not start, or did not reach a state in time; the message ends with its output."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One service of the mesh as it runs now."""

    name: str
    address: str
    pid: int

    def kill(self) -> None:
        """End it at once, as a crash would."""
        os.kill(self.pid, signal.SIGKILL)


class Mesh:
    """A running mesh. Its parts are started again by `twinlane up` when they die."""

    def __init__(self, *, process: subprocess.Popen[bytes], data: Path, output: Path) -> None:
        self.process = process
        self.data = data
        self._output = output

    @property
    def router(self) -> str:
        """host:port of the router."""
        return self.part("router").address

    @property
    def controller(self) -> str:
        """host:port of the controller."""
        return self.part("controller").address

    def part(self, name: str) -> Part:
        """Return the service of that name as it runs now."""
        row = self._state()[name]
        return Part(name=name, address=str(row["address"]), pid=int(row["pid"]))

    def output(self) -> str:
        """Return what `twinlane up` has printed so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def _state(self) -> dict[str, dict[str, str | int]]:
        (file,) = self.data.glob("run/*/mesh.json")
        state: dict[str, dict[str, str | int]] = json.loads(file.read_text(encoding="utf-8"))
        return state


@contextmanager
def running_mesh(*, engine: str, data: Path, model_data: Path | None = None) -> Iterator[Mesh]:
    """Start a mesh whose files are under `data`, wait until it serves, and stop it at the end. Raises MeshError.

    `model_data` is a data folder whose prepared models are used too, so that they are prepared once for all meshes.
    """
    data.mkdir(parents=True, exist_ok=True)
    if model_data is not None and not (data / "models").exists():
        (model_data / "models").mkdir(parents=True, exist_ok=True)
        (data / "models").symlink_to((model_data / "models").resolve())
    output = data / "up.log"
    command = [sys.executable, "-m", "cli.main", "up", "--engine", engine, "--port-base", "0", "--data", str(data)]
    with output.open("wb") as sink:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    mesh = Mesh(process=process, data=data, output=output)
    try:
        asyncio.run(_until_serving(mesh, limit_s=START_LIMIT_S[engine]))
        yield mesh
    finally:
        stop(process)


async def _until_serving(mesh: Mesh, *, limit_s: float) -> None:
    async def says_so() -> bool:
        if mesh.process.poll() is not None:
            raise MeshError(f"`twinlane up` ended with {mesh.process.returncode}:\n{mesh.output()}")
        return "The mesh serves" in mesh.output()

    try:
        await eventually(says_so, bool, limit_s=limit_s)
    except TimeoutError as error:
        raise MeshError(f"the mesh does not serve after {limit_s:.0f} s:\n{mesh.output()}") from error


def stop(process: subprocess.Popen[bytes]) -> int:
    """Stop `twinlane up` as Ctrl-C does and return its exit code. Raises MeshError where it does not end in time."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise MeshError(f"`twinlane up` did not stop within {_STOP_LIMIT_S:.0f} s") from error


async def eventually(
    read: Callable[[], Awaitable[ValueT]],
    holds: Callable[[ValueT], bool],
    *,
    limit_s: float,
    clock: Clock | None = None,
) -> ValueT:
    """Read until `holds` says yes and return what was read; failed gRPC calls count as no. Raises TimeoutError."""
    time = clock or SystemClock()
    end_s = time.monotonic_s() + limit_s
    while True:
        try:
            value = await read()
            if holds(value):
                return value
            last: object = value
        except grpc.aio.AioRpcError as error:
            last = error
        if time.monotonic_s() > end_s:
            raise TimeoutError(f"not within {limit_s:g} s; last: {last}")
        await asyncio.sleep(_POLL_INTERVAL_S)


def connect(address: str) -> grpc.aio.Channel:
    """Return a channel to a part of the mesh."""
    return open_channel(address, max_message_bytes=MAX_MESSAGE_BYTES)
