"""Step times and counts from vLLM's records."""

from types import SimpleNamespace

from libs.core.clock import ManualClock
from services.engine.backend.vllm_stats import StepStats


def record(*, running: int, waiting: int = 0, usage: float = 0.5, queries: int = 0, hits: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        num_running_reqs=running,
        num_waiting_reqs=waiting,
        kv_cache_usage=usage,
        prefix_cache_stats=SimpleNamespace(queries=queries, hits=hits),
    )


def test_step_time_counts_from_the_arrival_of_work() -> None:
    clock = ManualClock(monotonic_s=100.0)
    stats = StepStats(clock)
    clock.advance(50)
    stats.work_arrived()
    clock.advance(0.25)
    stats.record(record(running=1), None)

    assert stats.snapshot().step_s == 0.25


def test_idle_time_between_steps_is_no_step_time() -> None:
    clock = ManualClock(monotonic_s=100.0)
    stats = StepStats(clock)
    stats.work_arrived()
    clock.advance(0.25)
    stats.record(record(running=0), None)
    clock.advance(30)
    stats.record(record(running=0), None)

    snapshot = stats.snapshot()
    assert (snapshot.step_s, snapshot.steps_total, snapshot.busy_ratio) == (0.25, 2, 0.0)


def test_counters_add_up() -> None:
    stats = StepStats(ManualClock())
    stats.record(record(running=1, queries=10, hits=4), SimpleNamespace(num_preempted_reqs=1))
    stats.record(record(running=0, usage=0.0, queries=5, hits=5), SimpleNamespace(num_preempted_reqs=2))

    snapshot = stats.snapshot()
    assert (snapshot.prefix_query_tokens_total, snapshot.prefix_hit_tokens_total) == (15, 9)
    assert (snapshot.preemptions_total, snapshot.kv_usage_ratio) == (3, 0.0)


def test_work_that_vanished_without_a_record_is_asked_for_and_corrected() -> None:
    clock = ManualClock()
    stats = StepStats(clock)
    stats.work_arrived()
    stats.record(record(running=1), None)
    assert not stats.may_be_outdated(quiet_s=0.25)
    clock.advance(0.3)
    assert stats.may_be_outdated(quiet_s=0.25)

    stats.correct(queued=0, kv_usage_ratio=0.0)

    assert not stats.may_be_outdated(quiet_s=0.25)
    assert stats.snapshot().kv_usage_ratio == 0.0
