"""What holds for every backend (services/engine/backend/base.py).

Every case runs on the simulated backend, and marked `real` on vLLM with the real model.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from services.engine.backend.base import Backend
from services.engine.backend.sim_backend import SimBackend, SimOptions
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.domain import BackendLostError, BackendRequest, Finish, Limits, TokenChunk, TuningValues
from services.engine.policy.step_cost import StepCost
from tests.support.real_model import real_options

Started = tuple[Backend, Limits]
Case = Callable[[Backend, Limits], Awaitable[None]]


@asynccontextmanager
async def started_sim() -> AsyncIterator[Started]:
    options = SimOptions(
        max_context_tokens=512,
        max_active_sequences=8,
        max_batched_tokens=256,
        block_size_tokens=16,
        kv_blocks=512,
        cost=StepCost(base_ms=1.0, prefill_token_ms=0.01, decode_ms=0.01, context_ktoken_ms=0.0),
        speed=1.0,
        vocabulary_size=1000,
        seed=0,
    )
    backend = SimBackend(options, clock=SystemClock())
    limits = await backend.start()
    try:
        yield backend, limits
    finally:
        await backend.stop()


@pytest.fixture(scope="module")
def vllm() -> Iterator[Callable[[Case], None]]:
    """One real engine for the whole module: it takes half a minute to start. The case that stops it comes last."""
    with asyncio.Runner() as runner:
        backend = VllmBackend(real_options(max_active_sequences=8, max_batched_tokens=256), clock=SystemClock())
        limits = runner.run(backend.start())

        async def fresh(case: Case) -> None:
            await backend.apply_tuning(TuningValues(max_active_sequences=8, max_batched_tokens=256))
            await case(backend, limits)

        try:
            yield lambda case: runner.run(fresh(case))
        finally:
            runner.run(backend.stop())


def run_on_sim(case: Case) -> None:
    async def main() -> None:
        async with started_sim() as (backend, limits):
            await case(backend, limits)

    asyncio.run(main())


# vLLM and torch warn of their own future when they are imported.
_REAL = (pytest.mark.real, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore"))


@pytest.fixture(params=["sim", pytest.param("vllm", marks=_REAL)])
def run(request: pytest.FixtureRequest) -> Callable[[Case], None]:
    if request.param == "sim":
        return run_on_sim
    started: Callable[[Case], None] = request.getfixturevalue("vllm")
    return started


def asked(name: str, **fields: Any) -> BackendRequest:
    base: dict[str, Any] = {"token_ids": list(range(1, 40)), "lane": Lane.REALTIME, "max_new_tokens": 8, "ignore_eos": True}
    return BackendRequest(request_id=name, **{**base, **fields})


async def answer(backend: Backend, request: BackendRequest) -> list[TokenChunk]:
    async with aclosing(backend.generate(request)) as chunks:
        return [chunk async for chunk in chunks]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a reading shows what is asked for, 5 s at most; backends have no event for it."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


def is_free(backend: Backend) -> Callable[[], bool]:
    """Say whether no running request holds a block."""
    return lambda: backend.snapshot().kv_usage_ratio == 0


def test_generate_to_its_limit_gives_that_many_tokens(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        chunks = await answer(backend, asked("a"))
        assert sum(len(chunk.token_ids) for chunk in chunks) == 8
        assert [chunk.finish for chunk in chunks][-1] is Finish.LENGTH
        assert all(chunk.finish is None for chunk in chunks[:-1])

    run(case)


def test_generate_twice_greedily_gives_the_same_text(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        first, second = await answer(backend, asked("a")), await answer(backend, asked("b"))
        assert "".join(c.text for c in first) == "".join(c.text for c in second) != ""

    run(case)


def test_generate_with_a_known_prefix_counts_cached_tokens(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, limits: Limits) -> None:
        prompt = [1 + index % 90 for index in range(3 * limits.block_size_tokens + 1)]
        first = await answer(backend, asked("a", token_ids=prompt, cache_salt="s"))
        second = await answer(backend, asked("b", token_ids=prompt, cache_salt="s"))
        other = await answer(backend, asked("c", token_ids=prompt, cache_salt="t"))
        counts = [{chunk.cached_tokens for chunk in chunks} for chunks in (first, second, other)]
        assert counts == [{0}, {3 * limits.block_size_tokens}, {0}]

    run(case)


def test_generate_with_a_stop_text_ends_before_it(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        whole = "".join(chunk.text for chunk in await answer(backend, asked("a")))
        stop = whole[len(whole) // 2 :][:3]
        chunks = await answer(backend, asked("b", stop=(stop,)))
        assert "".join(chunk.text for chunk in chunks) == whole[: whole.index(stop)]
        assert chunks[-1].finish is Finish.STOP

    run(case)


def test_generate_many_at_once_answers_each(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, limits: Limits) -> None:
        count = 2 * limits.max_active_sequences
        answers = await asyncio.gather(
            *(answer(backend, asked(f"r{number}", token_ids=[number + 1] * 5)) for number in range(count))
        )
        assert [sum(len(chunk.token_ids) for chunk in chunks) for chunks in answers] == [8] * count

    run(case)


def test_generate_closed_early_frees_its_blocks(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        async with aclosing(backend.generate(asked("a", max_new_tokens=400))) as chunks:
            await anext(chunks)
            usage = backend.snapshot().kv_usage_ratio
            assert usage is None or usage > 0
        await until(is_free(backend))

    run(case)


def test_generate_cancelled_before_its_first_token_frees_its_place(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        tasks = [asyncio.create_task(answer(backend, asked(f"r{n}", max_new_tokens=400))) for n in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(is_free(backend))
        assert len(await answer(backend, asked("after", max_new_tokens=1))) >= 1

    run(case)


def test_apply_tuning_while_idle_holds_at_once(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        wanted = TuningValues(max_active_sequences=2, max_batched_tokens=64)
        async with asyncio.timeout(5):
            assert await backend.apply_tuning(wanted) == wanted

    run(case)


def test_apply_tuning_over_the_envelope_is_clamped(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, limits: Limits) -> None:
        holds = await backend.apply_tuning(TuningValues(max_active_sequences=10**6, max_batched_tokens=10**6))
        assert (holds.max_active_sequences, holds.max_batched_tokens) == (
            limits.max_active_sequences,
            limits.max_batched_tokens,
        )

    run(case)


def test_apply_tuning_below_what_runs_stops_nothing(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        running = [asyncio.create_task(answer(backend, asked(f"r{n}", max_new_tokens=50))) for n in range(4)]
        await until(lambda: backend.snapshot().steps_total > 3)
        await backend.apply_tuning(TuningValues(max_active_sequences=1, max_batched_tokens=64))
        answers = await asyncio.gather(*running)
        assert [sum(len(chunk.token_ids) for chunk in chunks) for chunks in answers] == [50] * 4

    run(case)


def test_snapshot_after_work_has_counted_steps(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        before = backend.snapshot().steps_total
        await answer(backend, asked("a"))
        after = backend.snapshot()
        assert after.steps_total >= before + 8
        assert after.step_s is not None
        assert after.step_s > 0
        assert after.last_step_at_s is not None

    run(case)


def test_stop_while_generating_ends_with_backend_lost(run: Callable[[Case], None]) -> None:
    async def case(backend: Backend, _limits: Limits) -> None:
        chunks = backend.generate(asked("a", max_new_tokens=400))
        await anext(chunks)
        await backend.stop()
        with pytest.raises(BackendLostError):
            async for _ in chunks:
                pass
        await backend.stop()

    run(case)
