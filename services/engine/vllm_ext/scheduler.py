"""The class-aware scheduler: vLLM's own, told before each step who comes first and how much batch may have.

It overrides the hooks named in RELIED_ON and copies nothing; all decisions are in services/engine/policy. Realtime comes first
among running and waiting requests, batch prompts get what the step-time model leaves under the target, slots are kept free for
realtime, and where it still finds none, or no blocks, the batch request with the least to lose is preempted.
"""

import math
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.request import RequestStatus

from libs.core.clock import SystemClock
from libs.limits.token_bucket import TokenBucket
from services.engine.policy.admission import BATCH_RESERVED_SLOTS, Admission, SlotView, admit
from services.engine.policy.arrivals import arrived
from services.engine.policy.preemption import (
    PREEMPTION_BURST,
    PREEMPTIONS_PER_S,
    Need,
    VictimView,
    choose_victims,
    victim_ranks,
)
from services.engine.policy.scheduler_tuning import Envelope, SchedulerTuning, active_limit, tier_limits
from services.engine.policy.step_budget import StepView, accrue, paid, plan_budget
from services.engine.policy.step_time import StepWork
from services.engine.vllm_ext.running_view import RunningView, view_running
from services.engine.vllm_ext.scheduler_state import CONFIG_KEY, state_from_config
from services.engine.vllm_ext.step_plan import StepPlan, StepRecord, account
from services.engine.vllm_ext.tiered_queue import CacheTiers
from services.engine.vllm_ext.tracked_request import TrackedRequest, track
from services.engine.vllm_ext.waiting_queue import ClassAwareQueue

# Waiting realtime requests looked at to foresee the next step; a step rarely starts more.
_LOOKAHEAD_REQUESTS = 16
# What vLLM preempts first has the highest priority number; realtime has the lowest.
_REALTIME_RANK = -1


class ClassAwareScheduler(AsyncScheduler):  # type: ignore[misc]  # vLLM has no types that mypy could follow
    """For vLLM's scheduler_cls. Configured by additional_config["twinlane"], see scheduler_state."""

    # Of vLLM's Scheduler.
    block_size: int
    max_num_active_reqs: int
    max_num_scheduled_tokens: int
    num_prefill_lookahead: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = self.vllm_config.additional_config
        self.state = state_from_config(
            config.get(CONFIG_KEY, {}) if isinstance(config, dict) else {},
            envelope=Envelope(
                max_active_sequences=self.max_num_running_reqs,
                max_batched_tokens=self.max_num_scheduled_tokens,
                total_blocks=self.kv_cache_manager.block_pool.num_gpu_blocks,
            ),
            max_active_sequences=self.max_num_active_reqs,
            max_batched_tokens=self.max_num_scheduled_tokens,
        )
        self.clock = SystemClock()
        # Lets vLLM choose its own victims by the ranks that are set here.
        self.policy = SchedulingPolicy.PRIORITY
        self.tracked: dict[str, TrackedRequest] = {}
        self.waiting = ClassAwareQueue(self.track_of)
        self.cache = CacheTiers(
            self.kv_cache_manager,
            block_size_tokens=self.block_size,
            limits=tier_limits(self.state.tuning, self.state.envelope),
        )
        self._plan: StepPlan | None = None
        self._preemptions = TokenBucket(rate_per_s=PREEMPTIONS_PER_S, burst=PREEMPTION_BURST, now_s=self.clock.monotonic_s())
        self.set_tuning(self.state.tuning)

    def track_of(self, request: Any) -> TrackedRequest:
        """Return what is remembered of a request."""
        return self.tracked[request.request_id]

    def set_tuning(self, tuning: SchedulerTuning) -> None:
        """Let values hold from the next step on; they are inside the envelope. Nothing that runs is stopped."""
        self.state.set_tuning(tuning)
        self.max_num_active_reqs = active_limit(tuning)
        self.max_num_scheduled_tokens = tuning.max_batched_tokens
        self.cache.tiers.set_limits(tier_limits(tuning, self.state.envelope))

    def add_request(self, request: Any) -> None:
        """See Scheduler."""
        if request.request_id not in self.tracked:
            now_s = self.clock.monotonic_s()
            tracked = track(request, now_s=now_s)
            self.tracked[request.request_id] = tracked
            if tracked.realtime:
                request.priority = _REALTIME_RANK
                self.state.arrivals = arrived(self.state.arrivals, now_s=now_s)
            else:
                request.priority = 0
        super().add_request(request)

    def schedule(self, throttle_prefills: bool = False) -> Any:
        """See Scheduler."""
        now_s, tracked = self.clock.monotonic_s(), self.tracked
        self.cache.step(now_s=now_s)
        self.running.sort(key=lambda request: tracked[request.request_id].running_key)
        running = view_running(self.running, tracked)
        preempted = self._make_room(running, now_s)
        if preempted:
            running = view_running(self.running, tracked)
        self._plan = self._make_plan(running, now_s)
        admission = self._admission(running)
        self.waiting.open(Admission(realtime=admission.realtime, batch=0) if preempted else admission, now_s=now_s)
        self._rank_victims(running)
        output = super().schedule(throttle_prefills)
        self.waiting.close()
        self.cache.tiers.shield_hot = False
        self._finish_step(output.num_scheduled_tokens)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """See Scheduler."""
        if self.state.in_flight:
            self.state.finish_step(self.state.in_flight.popleft(), now_s=self.clock.monotonic_s())
        return super().update_from_output(scheduler_output, model_runner_output)

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """See Scheduler."""
        done: bool = super().reset_prefix_cache(reset_running_requests, reset_connector)
        if done:
            self.cache.emptied()
        return done

    def _reserve_prefill_lookahead(self, request: Any, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Asked once for each request before its blocks are allocated: cut prompts to the budget of their class."""
        plan, granted = self._plan, num_new_tokens
        if plan is not None and (granted > 1 or plan.shield_hot):
            realtime = self.track_of(request).realtime
            self.cache.tiers.shield_hot = plan.shield_hot and not realtime and self._has_company(request)
            if num_computed_tokens < request.num_tokens - 1 and not self.need_mamba_block_aligned_split:
                granted = plan.take(realtime=realtime, wanted_tokens=granted)
        if self.num_prefill_lookahead:
            granted = super()._reserve_prefill_lookahead(request, num_computed_tokens, granted)
        return granted

    def _has_company(self, request: Any) -> bool:
        """Return whether another request runs: one that runs alone may use every block, for nobody could give it any."""
        running = len(self.running)
        return running > 1 or (running == 1 and request.status != RequestStatus.RUNNING)

    def _preempt_request(self, request: Any, timestamp: float, drop_stale_output: bool = False) -> None:
        tracked = self.track_of(request)
        tracked.lost_tokens = request.num_computed_tokens
        if tracked.realtime:
            self.state.counters.realtime_preemptions += 1
        else:
            self.state.counters.batch_preemptions += 1
        super()._preempt_request(request, timestamp, drop_stale_output=drop_stale_output)

    def _free_request_blocks(self, request: Any) -> None:
        if request.is_finished():
            tracked = self.tracked.pop(request.request_id, None)
            if tracked is not None and tracked.tag.hot:
                self.cache.keep_hot(request)
            elif tracked is not None and tracked.tag.bypass_prefix_cache:
                self.cache.drop(request, cached_tokens=tracked.cached_tokens or 0)
        super()._free_request_blocks(request)

    def _admission(self, running: RunningView) -> Admission:
        return admit(
            SlotView(
                active_limit=self.max_num_active_reqs,
                realtime_reserved=self.state.tuning.realtime_reserved_slots,
                realtime_running=running.realtime,
                batch_running=running.batch,
                batch_waiting=self.waiting.background_waiting,
            )
        )

    def _make_plan(self, running: RunningView, now_s: float) -> StepPlan:
        state, targets = self.state, self.state.targets
        free_slots = max(self.max_num_active_reqs - running.realtime - running.batch, 0)
        starting = self.waiting.first_realtime(min(free_slots, _LOOKAHEAD_REQUESTS))
        view = StepView(
            now_s=now_s,
            decoding=StepWork(decodes=running.decodes, context_tokens=running.context_tokens),
            realtime_prefill_tokens=running.realtime_prefill_tokens + sum([request.num_tokens for request in starting]),
            realtime_present=running.realtime + self.waiting.realtime_waiting > 0,
            batch_present=running.batch + self.waiting.background_waiting > 0,
            batch_computed_tokens=running.batch_computed_tokens,
            arrivals=state.arrivals,
        )
        state.debt = accrue(state.debt, view, targets, state.model)
        budget = plan_budget(view, targets, state.model, state.debt)
        state.note_budget(budget)
        return StepPlan(
            budget=budget,
            chunk_tokens=targets.chunk_tokens,
            realtime_left=budget.realtime_tokens,
            batch_left=budget.batch_tokens,
            shield_hot=self.cache.tiers.hot_blocks > 0,
        )

    def _finish_step(self, scheduled: dict[str, int]) -> None:
        """Count what the step really holds, and learn what each request that starts found in the cache."""
        self._plan = None
        held = account(scheduled, self.requests, self.tracked)
        for request_id, computed_tokens in held.beginning:
            self._note_start(request_id, self.tracked[request_id], computed_tokens)
        self.state.debt = paid(self.state.debt, batch_tokens=held.batch_prefill_tokens)
        self.state.in_flight.append(StepRecord(held.work, self.clock.monotonic_s(), held.realtime_tokens, held.batch_tokens))

    def _note_start(self, request_id: str, tracked: TrackedRequest, cached_tokens: int) -> None:
        if tracked.cached_tokens is None:
            tracked.cached_tokens = cached_tokens
            self.cache.admitted(self.requests[request_id], cached_tokens=cached_tokens)
        if tracked.lost_tokens is not None:
            self.state.counters.recomputed_tokens += max(tracked.lost_tokens - cached_tokens, 0)
            tracked.lost_tokens = None

    def _make_room(self, running: RunningView, now_s: float) -> bool:
        """Preempt background work where realtime requests would find no slot or no blocks; return whether any was. For the late
        ones nothing is thrown away."""
        starting = self.waiting.first_on_time(_LOOKAHEAD_REQUESTS)
        free_blocks = self.cache.tiers.num_free_blocks
        blocks = running.realtime + sum(self._blocks_for(request) for request in starting)
        slots = len(starting) - max(self.max_num_active_reqs - running.realtime - running.batch, 0)
        if running.batch == 0 or (blocks <= free_blocks and slots <= 0):
            return False
        spared = BATCH_RESERVED_SLOTS if blocks <= free_blocks else 0
        allowed = min(running.batch - spared, int(self._preemptions.level(now_s=now_s)))
        need = Need(slots=slots, blocks=blocks, free_blocks=free_blocks, block_size_tokens=self.block_size)
        victims = set(choose_victims(self._victims(), need, allowed=allowed))
        for request in [request for request in self.running if request.request_id in victims]:
            self.running.remove(request)
            self._preempt_request(request, now_s, drop_stale_output=self.requires_kv_delivery)
            self._preemptions.try_take(1, now_s=now_s)
        return bool(victims)

    def _rank_victims(self, running: RunningView) -> None:
        """Where blocks are scarce, let vLLM stop the request with the least to lose."""
        tiers = self.cache.tiers
        idle = tiers.blank_blocks + tiers.cold_blocks
        if idle > len(self.running) + self.max_num_scheduled_tokens // self.block_size or running.batch < 2:
            return
        ranks = victim_ranks(self._victims(), block_size_tokens=self.block_size)
        for request in self.running:
            request.priority = ranks.get(request.request_id, _REALTIME_RANK)

    def _victims(self) -> list[VictimView]:
        return [
            VictimView(
                request_id=request.request_id,
                computed_tokens=request.num_computed_tokens,
                own_blocks=self.cache.own_blocks(request),
                order_key=self.track_of(request).order_key[0],
            )
            for request in self.running
            if not self.track_of(request).realtime and self._request_blocks_can_be_freed(request)
        ]

    def _blocks_for(self, request: Any) -> int:
        """Blocks of a prompt and its first token."""
        tokens: int = request.num_tokens + 1
        return math.ceil(tokens / self.block_size)
