"""The simulated engine in virtual time: exact step times, waiting, preference, cancellation, loss."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from libs.core.lanes import Lane
from services.engine.backend.sim_backend import SimBackend
from services.engine.domain import BackendLostError, BackendRequest, BackendStartError, TuningValues
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.engine.sim import sim_options


def asked(name: str, **fields: Any) -> BackendRequest:
    base: dict[str, Any] = {"token_ids": [1] * 20, "lane": Lane.REALTIME, "max_new_tokens": 3, "ignore_eos": True}
    return BackendRequest(request_id=name, **{**base, **fields})


async def finish_time(backend: SimBackend, request: BackendRequest) -> float:
    """Return the virtual seconds at which each request's last chunk came."""
    async with aclosing(backend.generate(request)) as chunks:
        async for _ in chunks:
            pass
    return virtual_clock().time()


async def started(**options: Any) -> SimBackend:
    backend = SimBackend(sim_options(**options), clock=virtual_clock())
    await backend.start()
    return backend


def test_generate_alone_takes_one_prompt_step_and_decodes() -> None:
    async def main() -> None:
        backend, began = await started(), virtual_clock().time()
        ended = await finish_time(backend, asked("a"))
        assert ended - began == pytest.approx(0.030 + 0.011 + 0.011)
        assert backend.snapshot().steps_total == 3
        await backend.stop()

    run_virtual(main())


def test_generate_with_a_cached_prefix_computes_only_the_rest() -> None:
    async def main() -> None:
        backend = await started()
        await finish_time(backend, asked("a"))
        began = virtual_clock().time()
        assert await finish_time(backend, asked("b")) - began == pytest.approx(0.014 + 0.011 + 0.011)
        snapshot = backend.snapshot()
        assert (snapshot.prefix_query_tokens_total, snapshot.prefix_hit_tokens_total) == (40, 16)
        await backend.stop()

    run_virtual(main())


def test_generate_over_the_slots_waits_for_a_free_one() -> None:
    async def main() -> None:
        backend, began = await started(max_active_sequences=1), virtual_clock().time()
        one, two = await asyncio.gather(finish_time(backend, asked("a")), finish_time(backend, asked("b", token_ids=[2] * 20)))
        assert [one - began, two - began] == pytest.approx([0.052, 0.104])
        await backend.stop()

    run_virtual(main())


def test_generate_of_a_lower_priority_number_goes_first() -> None:
    async def main() -> None:
        backend = await started(max_active_sequences=1)
        first = asyncio.create_task(finish_time(backend, asked("a")))
        await asyncio.sleep(0.001)
        late = asyncio.create_task(finish_time(backend, asked("b", priority=5)))
        await asyncio.sleep(0.001)
        urgent = asyncio.create_task(finish_time(backend, asked("c", priority=-5)))
        assert await first < await urgent < await late
        await backend.stop()

    run_virtual(main())


def test_generate_cancelled_frees_its_slot_at_the_next_step() -> None:
    async def main() -> None:
        backend = await started(max_active_sequences=1)
        hog = asyncio.create_task(finish_time(backend, asked("a", max_new_tokens=200)))
        await asyncio.sleep(0.5)
        hog.cancel()
        began = virtual_clock().time()
        assert await finish_time(backend, asked("b", token_ids=[2] * 20)) - began < 0.052 + 0.011
        assert backend.snapshot().kv_usage_ratio == 0
        await backend.stop()

    run_virtual(main())


def test_generate_under_block_pressure_answers_all_and_frees_all() -> None:
    async def main() -> None:
        backend = await started(kv_blocks=16)
        requests = [asked(f"r{n}", token_ids=[n + 1] * 60, max_new_tokens=40) for n in range(10)]
        await asyncio.gather(*(finish_time(backend, request) for request in requests))
        assert backend.snapshot().kv_usage_ratio == 0
        await backend.stop()

    run_virtual(main())


def test_tuning_below_the_decodes_gives_everyone_a_turn() -> None:
    async def main() -> None:
        backend = await started(max_active_sequences=40, kv_blocks=400)
        requests = [asked(f"r{n}", token_ids=[n + 1] * 5, max_new_tokens=20) for n in range(40)]
        tasks = [asyncio.create_task(finish_time(backend, request)) for request in requests]
        await asyncio.sleep(0.3)
        await backend.apply_tuning(TuningValues(max_active_sequences=40, max_batched_tokens=16))
        ends = await asyncio.gather(*tasks)
        assert max(ends) - min(ends) < 0.1
        await backend.stop()

    run_virtual(main())


def test_lose_while_generating_fails_every_stream_and_tells() -> None:
    async def main() -> None:
        backend = await started()
        tasks = [asyncio.create_task(finish_time(backend, asked(f"r{n}", max_new_tokens=200))) for n in range(12)]
        watcher = asyncio.create_task(backend.wait_lost())
        await asyncio.sleep(0.5)
        backend.lose("killed")
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(end) for end in ends] == ["killed"] * 12
        assert str(await watcher) == "killed"
        with pytest.raises(BackendLostError, match="killed"):
            await backend.apply_tuning(TuningValues(max_active_sequences=1, max_batched_tokens=16))
        await backend.stop()

    run_virtual(main())


def test_start_with_too_few_blocks_for_a_context_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(BackendStartError, match=r"sim\.kv_blocks"):
            await started(kv_blocks=15)

    run_virtual(main())
