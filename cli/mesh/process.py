"""One child process of the mesh: started in a process group of its own, so that Ctrl-C reaches only `twinlane up`."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path

from cli.mesh.plan import ServicePlan

# Bytes at the end of a log that are searched for the last line.
_TAIL_BYTES = 4096


async def spawn(service: ServicePlan) -> Process:
    """Start the service; its output is appended to its log file."""
    service.log_file.parent.mkdir(parents=True, exist_ok=True)
    with service.log_file.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"services.{service.kind}.main",
            "--config",
            str(service.config_file),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def end(process: Process, *, grace_s: float) -> None:
    """Ask the process to stop, wait up to `grace_s` seconds, then kill what remains of its group."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace_s)
    kill_group(process)
    await process.wait()


def kill_group(process: Process) -> None:
    """Kill the process and the children that it left behind (vLLM's core is one)."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def last_line(log_file: Path) -> str:
    """Return the last line that is not empty, or "" where there is none."""
    with suppress(OSError), log_file.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - _TAIL_BYTES))
        lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""
    return ""
