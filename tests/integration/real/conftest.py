"""One real engine for each module: it takes half a minute to start."""

import asyncio
import multiprocessing
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from libs.core.clock import SystemClock
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.domain import Limits
from tests.support.real_model import real_options

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, kw_only=True)
class RealEngine:
    """A started backend, the loop that it lives in, and its processes' ids: the core and the core's children."""

    backend: VllmBackend
    limits: Limits
    core_pid: int
    worker_pids: tuple[int, ...]
    run: Callable[[Coroutine[Any, Any, Any]], Any]


def children_of(pid: int) -> tuple[int, ...]:
    """Return the ids of a process's children."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return tuple(int(child) for file in files for child in file.read_text().split())


@pytest.fixture(scope="module")
def engine() -> Iterator[RealEngine]:
    with asyncio.Runner() as runner:
        backend = VllmBackend(real_options(), clock=SystemClock())
        try:
            limits = runner.run(backend.start())
            (core,) = multiprocessing.active_children()
            assert core.pid is not None
            yield RealEngine(
                backend=backend, limits=limits, core_pid=core.pid, worker_pids=children_of(core.pid), run=runner.run
            )
        finally:
            runner.run(backend.stop())
