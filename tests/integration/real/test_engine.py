"""vLLM with the real model: what the contract suite cannot ask of a simulated engine. The case that kills it comes last."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from services.engine.domain import BackendLostError, Finish, TuningValues
from tests.integration.real.conftest import RealEngine
from tests.integration.real.requests import answer, asked, chat, core_shows, prompt

# vLLM and torch warn of their own future when they are imported.
pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

_SLOT_FREE_LIMIT_S = 1.0
_LOSS_LIMIT_S = 2.0
_PROCESS_END_LIMIT_S = 10.0


def test_chat_at_temperature_0_is_answered(engine: RealEngine) -> None:
    request = asked("chat", token_ids=chat("What is the capital of France?"), max_new_tokens=24, ignore_eos=False)

    chunks = engine.run(answer(engine.backend, request))

    assert "".join(chunk.text for chunk in chunks) == "The capital of France is Paris."
    assert chunks[-1].finish is Finish.STOP


def test_cancel_during_a_long_prefill_frees_the_slot_within_a_second(engine: RealEngine) -> None:
    async def case() -> None:
        backend = engine.backend
        await backend.apply_tuning(TuningValues(max_active_sequences=16, max_batched_tokens=128))
        running = asyncio.create_task(answer(backend, asked("long", token_ids=prompt(2000, seed=1))))
        await core_shows(backend, lambda held: held["running"] == 1 and held["kv_usage_ratio"] > 0, limit_s=10)
        running.cancel()
        await core_shows(backend, lambda held: held["running"] == 0, limit_s=_SLOT_FREE_LIMIT_S)
        assert not running.done() or running.cancelled()
        await asyncio.gather(running, return_exceptions=True)

    engine.run(case())


def test_smaller_token_budget_takes_hold_while_busy(engine: RealEngine) -> None:
    async def case() -> None:
        backend = engine.backend
        await backend.apply_tuning(TuningValues(max_active_sequences=16, max_batched_tokens=512))
        busy = asyncio.create_task(answer(backend, asked("busy", max_new_tokens=60)))
        await core_shows(backend, lambda held: held["running"] == 1, limit_s=10)
        holds = await backend.apply_tuning(TuningValues(max_active_sequences=4, max_batched_tokens=64))
        before = backend.snapshot().steps_total
        await answer(backend, asked("prefill", token_ids=prompt(640, seed=2), max_new_tokens=1))
        assert holds == TuningValues(max_active_sequences=4, max_batched_tokens=64)
        assert backend.snapshot().steps_total - before >= 10
        assert sum(len(chunk.token_ids) for chunk in await busy) == 60

    engine.run(case())


def test_cap_on_active_sequences_keeps_the_rest_waiting(engine: RealEngine) -> None:
    async def case() -> None:
        backend = engine.backend
        await backend.apply_tuning(TuningValues(max_active_sequences=2, max_batched_tokens=512))
        running = [
            asyncio.create_task(answer(backend, asked(f"r{n}", token_ids=prompt(20, seed=n), max_new_tokens=30)))
            for n in range(5)
        ]
        await core_shows(backend, lambda held: (held["running"], held["waiting"]) == (2, 3), limit_s=10)
        answers = await asyncio.gather(*running)
        assert [sum(len(chunk.token_ids) for chunk in chunks) for chunks in answers] == [30] * 5

    engine.run(case())


def test_steps_of_a_long_prefill_are_measured(engine: RealEngine) -> None:
    async def case() -> None:
        backend = engine.backend
        await backend.apply_tuning(TuningValues(max_active_sequences=16, max_batched_tokens=128))
        before = backend.snapshot()
        await answer(backend, asked("measured", token_ids=prompt(1280, seed=3), max_new_tokens=1))
        after = backend.snapshot()
        assert after.steps_total - before.steps_total >= 10
        assert after.step_s is not None
        assert after.step_s > 0.01
        assert (after.prefix_query_tokens_total or 0) - (before.prefix_query_tokens_total or 0) == 1280

    engine.run(case())


def test_core_killed_while_calls_are_under_way_is_noticed_by_all(engine: RealEngine) -> None:
    """A stopped core leaves the calls unanswered for sure; then it is killed."""

    async def case() -> None:
        backend = engine.backend
        generating = asyncio.create_task(answer(backend, asked("last", max_new_tokens=400)))
        await core_shows(backend, lambda held: held["running"] == 1, limit_s=10)
        os.kill(engine.core_pid, signal.SIGSTOP)
        tuning = asyncio.create_task(backend.apply_tuning(TuningValues(max_active_sequences=8, max_batched_tokens=128)))
        await asyncio.sleep(0)
        os.kill(engine.core_pid, signal.SIGKILL)
        async with asyncio.timeout(_LOSS_LIMIT_S):
            lost = await backend.wait_lost()
            ends = await asyncio.gather(generating, tuning, return_exceptions=True)
        assert [type(end) for end in ends] == [BackendLostError, BackendLostError]
        assert "killed by SIGKILL" in str(lost)
        with pytest.raises(BackendLostError):
            await answer(backend, asked("after"))
        await _ended(engine.worker_pids)

    engine.run(case())


async def _ended(pids: tuple[int, ...]) -> None:
    assert pids
    async with asyncio.timeout(_PROCESS_END_LIMIT_S):
        while any(Path(f"/proc/{pid}").exists() for pid in pids):  # noqa: ASYNC110, ASYNC240 - /proc has no event and does not block
            await asyncio.sleep(0.05)
