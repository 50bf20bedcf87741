"""Starts of vLLM that come to nothing."""

import asyncio
import gc
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from libs.core.clock import SystemClock
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.domain import BackendStartError, VllmOptions
from tests.support.real_model import real_options

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

_STOP_LIMIT_S = 5.0


def start_and_fail(options: VllmOptions) -> str:
    """Return the words with which a start fails; the backend is stopped after it."""

    async def case() -> str:
        backend = VllmBackend(options, clock=SystemClock())
        with pytest.raises(BackendStartError) as failure:
            await backend.start()
        await backend.stop()
        assert not multiprocessing.active_children()
        return str(failure.value)

    words = asyncio.run(case())
    # A failed start of vLLM leaves its zmq context unclosed; it is to warn here, where warnings of vLLM are let pass.
    gc.collect()
    return words


def test_start_without_the_folder_names_it(tmp_path: Path) -> None:
    words = start_and_fail(replace(real_options(), model_folder=tmp_path / "absent"))

    assert words == f"model.folder: {tmp_path / 'absent'} is not a folder"


def test_start_without_config_json_names_it(tmp_path: Path) -> None:
    assert f"{tmp_path} has no config.json" in start_and_fail(replace(real_options(), model_folder=tmp_path))


def test_start_with_more_cache_than_memory_names_the_cause() -> None:
    words = start_and_fail(replace(real_options(), kv_cache_gib=100_000.0))

    assert "less than requested memory for kv (100000.0 GiB)" in words


def test_start_that_is_given_up_leaves_no_process() -> None:
    async def case() -> None:
        backend = VllmBackend(real_options(), clock=SystemClock())
        starting = asyncio.create_task(backend.start())
        while not multiprocessing.active_children():  # noqa: ASYNC110 - a process list has no event
            await asyncio.sleep(0.05)
        starting.cancel()
        async with asyncio.timeout(_STOP_LIMIT_S):
            await backend.stop()
        assert not multiprocessing.active_children()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(case())
    gc.collect()
