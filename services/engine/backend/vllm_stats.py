"""vLLM's own account of its steps, kept as one snapshot."""

from typing import Any

from libs.core.clock import Clock
from libs.limits.ewma import Ewma
from libs.limits.window import SlidingSum
from services.engine.domain import BackendSnapshot

_STEP_HALF_LIFE_S = 1.0
_BUSY_WINDOW_S = 1.0
# Two steps further apart than this had idle time between them, however busy the engine says it is.
_STEP_MAX_S = 60.0


class StepStats:
    """Takes vLLM's per-step records. A step's time is the gap between two records while work went on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps_total = 0
        self._last_step_at_s: float | None = None
        self._was_busy = False
        self._step_s = Ewma(half_life_s=_STEP_HALF_LIFE_S)
        self._busy = SlidingSum(window_s=_BUSY_WINDOW_S)
        self._kv_usage_ratio: float | None = None
        self._queries = 0
        self._hits = 0
        self._preemptions = 0

    def work_arrived(self) -> None:
        """The engine was idle and gets a request: the next step's time counts from here."""
        if not self._was_busy:
            self._last_step_at_s = self._clock.monotonic_s()
            self._was_busy = True

    def record(self, scheduler_stats: Any, iteration_stats: Any) -> None:
        """Take the record of one step: vLLM's SchedulerStats and IterationStats, each may be None."""
        if scheduler_stats is not None:
            self._record_step(scheduler_stats)
        if iteration_stats is not None:
            self._preemptions += iteration_stats.num_preempted_reqs

    def _record_step(self, stats: Any) -> None:
        now_s = self._clock.monotonic_s()
        if self._was_busy and self._last_step_at_s is not None:
            gap_s = now_s - self._last_step_at_s
            if 0 < gap_s < _STEP_MAX_S:
                self._step_s.add(gap_s, now_s=now_s)
                self._busy.add(gap_s, now_s=now_s)
        self._steps_total += 1
        self._last_step_at_s = now_s
        self._was_busy = stats.num_running_reqs + stats.num_waiting_reqs > 0
        self._kv_usage_ratio = stats.kv_cache_usage
        self._queries += stats.prefix_cache_stats.queries
        self._hits += stats.prefix_cache_stats.hits

    def may_be_outdated(self, *, quiet_s: float) -> bool:
        """Return whether the last record shows work but none came for `quiet_s`: the work may have been cancelled, which
        vLLM does not report."""
        if not self._was_busy or self._last_step_at_s is None:
            return False
        return self._clock.monotonic_s() - self._last_step_at_s > quiet_s

    def correct(self, *, queued: int, kv_usage_ratio: float) -> None:
        """Take what the core answered when asked."""
        self._was_busy = queued > 0
        self._kv_usage_ratio = kv_usage_ratio

    def snapshot(self) -> BackendSnapshot:
        """Return the reading of now."""
        now_s = self._clock.monotonic_s()
        return BackendSnapshot(
            steps_total=self._steps_total,
            last_step_at_s=self._last_step_at_s,
            step_s=self._step_s.value,
            busy_ratio=min(1.0, self._busy.per_second(now_s=now_s)),
            kv_usage_ratio=self._kv_usage_ratio,
            prefix_query_tokens_total=self._queries,
            prefix_hit_tokens_total=self._hits,
            preemptions_total=self._preemptions,
        )
