"""The class-aware scheduler with vLLM's own block pool, no engine: order, budgets, preemption, tiers, leaks."""

import random
from typing import Any

import pytest

from bench.core_scheduler import BLOCK_SIZE, CoreScheduler, build
from libs.core.lanes import Lane
from services.engine.policy.tiering import Tier
from services.engine.vllm_ext.scheduler_control import apply, check_integrity, purge, read, restore
from tests.support.real_model import model_folder

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def _core(**options: Any) -> CoreScheduler:
    return build(str(model_folder()), **options)


def _idle(core: CoreScheduler) -> None:
    """Check that nothing is held by anybody."""
    check_integrity(core.scheduler)
    tiers = core.scheduler.cache.tiers
    assert not core.scheduler.tracked
    assert tiers.blank_blocks + tiers.cold_blocks + tiers.hot_blocks == core.scheduler.state.envelope.total_blocks - 1


def test_realtime_that_comes_later_is_in_the_next_step() -> None:
    core = _core()
    core.add(1000)
    core.step()
    realtime = core.add(10, lane=Lane.REALTIME)

    assert core.step()[realtime] == 10


def test_batch_beside_realtime_gets_what_the_target_leaves() -> None:
    core = _core(max_batched=1024, tuning={"prefill_chunk_tokens": 1024})
    for _ in range(30):
        core.add(64, lane=Lane.REALTIME)
        core.step()
    batch = core.add(1500)
    realtime = core.add(8, lane=Lane.REALTIME, max_tokens=50)
    for _ in range(3):
        steps = core.step()

    # A step takes 10 ms and 1 ms a token: 90 tokens fill the 0.1 s target beside one decode.
    assert steps[realtime] == 1
    assert 80 <= steps[batch] <= 92


def test_realtime_is_started_by_deadline_and_late_ones_last() -> None:
    core = _core(max_active=1, tuning={"realtime_reserved_slots": 0})
    now_s = core.clock.monotonic_s()
    late = core.add(8, lane=Lane.REALTIME, deadline_s=now_s - 1, max_tokens=1)
    relaxed = core.add(8, lane=Lane.REALTIME, deadline_s=now_s + 50, max_tokens=1)
    urgent = core.add(8, lane=Lane.REALTIME, deadline_s=now_s + 5, max_tokens=1)
    core.run()

    assert core.finished == [urgent, relaxed, late]


def test_batch_leaves_the_reserved_slots_free() -> None:
    core = _core(max_active=4, tuning={"realtime_reserved_slots": 2})
    for _ in range(6):
        core.add(16, max_tokens=50)
    for _ in range(4):
        core.step()

    assert len(core.scheduler.running) == 2


def test_realtime_without_a_slot_preempts_the_batch_request_with_least_to_lose() -> None:
    core = _core(max_active=3, tuning={"realtime_reserved_slots": 0})
    for tokens in (61, 91, 71):
        core.add(tokens, max_tokens=100)
    for _ in range(4):
        core.step()
    # What is kept in full blocks stays in the cache; what is lost is the rest.
    victim = min(core.scheduler.running, key=lambda request: request.num_computed_tokens % BLOCK_SIZE)
    lost = victim.num_computed_tokens % BLOCK_SIZE
    realtime = core.add(8, lane=Lane.REALTIME, max_tokens=1)
    scheduled = core.step()

    assert realtime in scheduled
    assert victim.request_id not in scheduled
    assert len(scheduled) == 3
    core.step()
    core.step()
    assert read(core.scheduler)["recomputed_tokens"] == lost
    assert read(core.scheduler)["batch_preemptions"] == 1
    core.run()
    _idle(core)


def test_preemptions_for_slots_are_bounded_by_their_rate() -> None:
    core = _core(max_active=16, tuning={"realtime_reserved_slots": 0})
    for _ in range(16):
        core.add(16, max_tokens=1000)
    for _ in range(3):
        core.step()
    for _ in range(200):
        core.add(8, lane=Lane.REALTIME, max_tokens=50)
    begun_s = core.clock.monotonic_s()
    for _ in range(20):
        core.step()

    elapsed_s = core.clock.monotonic_s() - begun_s
    assert 0 < read(core.scheduler)["batch_preemptions"] <= 8 + 4 * elapsed_s


def test_realtime_finds_blocks_when_batch_holds_them_all() -> None:
    core = _core(blocks=64, tuning={"hot_cache_ratio": 0.0})
    for _ in range(4):
        core.add(16 * 15, max_tokens=400)
    pool = core.scheduler.kv_cache_manager.block_pool
    while pool.get_num_free_blocks() > 5:
        core.step()
    realtime = core.add(100, lane=Lane.REALTIME)

    assert realtime in core.step()
    core.run()
    _idle(core)


def test_batch_short_of_blocks_always_ends() -> None:
    core = _core(blocks=40, tuning={"hot_cache_ratio": 0.5})
    names = [core.add(16 * 20, max_tokens=200) for _ in range(5)]
    core.run()

    assert sorted(core.finished) == sorted(names)
    _idle(core)


def test_batch_under_sustained_realtime_load_keeps_its_share() -> None:
    core = _core(max_active=8, tuning={"batch_min_share_ratio": 0.2})
    batch = core.add(2000, max_tokens=1)
    while core.clock.monotonic_s() < 1060 and batch not in core.finished:
        while core.scheduler.waiting.realtime_waiting < 20:
            core.add(64, lane=Lane.REALTIME, max_tokens=8)
        core.step()

    # Alone it would take some 10 s.
    assert batch in core.finished
    assert core.clock.monotonic_s() - 1000 < 50


def test_hot_prefix_survives_floods_larger_than_the_cache() -> None:
    core = _core(blocks=128)
    prefix = list(range(500))
    core.add([*prefix, 1], lane=Lane.REALTIME, hot=True)
    core.run()
    for _ in range(3):
        for _ in range(6):
            core.add(700, max_tokens=1)
        core.run()
        name = core.add([*prefix, 2], lane=Lane.REALTIME, hot=True)
        core.step()
        assert core.scheduler.tracked[name].cached_tokens == 500 // BLOCK_SIZE * BLOCK_SIZE
        core.run()
    _idle(core)


def test_prefix_reused_three_times_is_learnt_and_survives() -> None:
    core = _core(blocks=128)
    prefix = list(range(300))
    for last in range(4):
        core.add([*prefix, last], lane=Lane.REALTIME)
        core.run()
    for _ in range(6):
        core.add(700, max_tokens=1)
    core.run()
    name = core.add([*prefix, 99], lane=Lane.REALTIME)
    core.step()

    assert core.scheduler.tracked[name].cached_tokens == 300 // BLOCK_SIZE * BLOCK_SIZE
    assert read(core.scheduler)["hot_hit_tokens"] > 0


def test_prefix_flushed_by_a_flood_is_a_ghost_hit() -> None:
    core = _core(blocks=64)
    core.add(list(range(320)), max_tokens=1)
    core.run()
    for _ in range(2):
        core.add(700, max_tokens=1)
    core.run()
    core.add(list(range(320)), max_tokens=1)
    core.run()

    reading = read(core.scheduler)
    assert reading["cold_ghost_tokens"] == 320
    assert reading["ghost_entries"] <= 128


def test_request_that_bypasses_the_cache_leaves_nothing_and_keeps_what_it_shared() -> None:
    core = _core(blocks=128)
    core.add(list(range(160)), max_tokens=1)
    core.run()
    before = core.scheduler.cache.tiers.cold_blocks
    name = core.add([*range(160), *range(5000, 5320)], max_tokens=1, bypass=True)
    core.step()

    assert core.scheduler.tracked[name].cached_tokens == 160
    core.run()
    assert core.scheduler.cache.tiers.cold_blocks == before
    _idle(core)


def test_purge_while_busy_leaves_running_work_alone() -> None:
    core = _core(blocks=256)
    for _ in range(4):
        core.add(300, max_tokens=1)
    core.run()
    running = core.add(300, max_tokens=20)
    core.step()
    idle = core.scheduler.cache.tiers.cold_blocks

    report = purge(core.scheduler, share=0.5, tiers=frozenset({Tier.COLD}))

    assert report["purged_cold_blocks"] == (idle + 1) // 2
    core.run()
    assert running in core.finished
    assert purge(core.scheduler, share=1.0)["cold_blocks"] == 0
    _idle(core)


def test_lower_active_limit_drains_down_and_stops_nothing() -> None:
    core = _core(max_active=16, tuning={"realtime_reserved_slots": 0})
    names = [core.add(16, max_tokens=10 + 5 * number) for number in range(12)]
    for _ in range(3):
        core.step()
    applied = apply(core.scheduler, {"max_active_sequences": 4})
    late = core.add(16)
    counts = []
    while core.scheduler.has_unfinished_requests():
        core.step()
        counts.append(len(core.scheduler.running))

    assert applied["tuning"]["max_active_sequences"] == 4
    assert counts == sorted(counts, reverse=True) or max(counts[-10:]) <= 4
    assert sorted(core.finished) == sorted([*names, late])
    assert read(core.scheduler)["batch_preemptions"] == 0


def test_static_mode_runs_eight_and_restore_brings_the_defaults_back() -> None:
    core = _core(max_active=16)
    apply(core.scheduler, {"static_batching": True})
    for _ in range(20):
        core.add(16, max_tokens=30)
    for _ in range(5):
        core.step()
    static = len(core.scheduler.running)
    restored = restore(core.scheduler)
    core.step()

    assert static <= 8
    assert restored["tuning"]["static_batching"] is False
    assert core.scheduler.max_num_active_reqs == 16


def test_update_that_is_refused_changes_nothing() -> None:
    core = _core()
    before = read(core.scheduler)["tuning"]

    with pytest.raises(ValueError, match="hot_cache_ratio"):
        apply(core.scheduler, {"max_active_sequences": 4, "hot_cache_ratio": "much"})
    assert read(core.scheduler)["tuning"] == before


def test_reset_of_the_prefix_cache_leaves_no_tier_filled() -> None:
    core = _core()
    core.add(300, lane=Lane.REALTIME, hot=True)
    core.run()

    assert core.scheduler.reset_prefix_cache()
    assert (core.scheduler.cache.tiers.hot_blocks, core.scheduler.cache.tiers.cold_blocks) == (0, 0)
    _idle(core)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_leaks_over_a_thousand_rounds_of_adding_and_cancelling(seed: int) -> None:
    rng = random.Random(seed)
    core = _core(blocks=96, max_active=8)
    living: list[str] = []
    for round_number in range(1000):
        lane = rng.choice(list(Lane))
        shared = list(range(rng.choice((0, 40, 200))))
        prompt = [*shared, *rng.choices(range(3000, 9000), k=rng.randrange(1, 400))]
        deadline_s = core.clock.monotonic_s() + rng.uniform(-0.1, 1)
        living.append(
            core.add(
                prompt,
                lane=lane,
                max_tokens=rng.randrange(1, 12),
                deadline_s=deadline_s,
                hot=rng.random() < 0.3,
                bypass=rng.random() < 0.2,
                priority=rng.randrange(-5, 6),
            )
        )
        for _ in range(rng.randrange(3)):
            core.step()
        if rng.random() < 0.5:
            core.cancel(living.pop(rng.randrange(len(living))))
        if rng.random() < 0.02:
            purge(core.scheduler, share=rng.random())
        if round_number % 50 == 0:
            apply(core.scheduler, {"max_active_sequences": rng.randrange(1, 9), "hot_cache_ratio": rng.random() * 0.5})
            check_integrity(core.scheduler)
    core.run()
    _idle(core)
    assert read(core.scheduler)["ghost_entries"] <= 2 * 96
