"""The class-aware scheduler inside vLLM's core process (E3, E4): realtime first in every step, batch in what a predicted step
time leaves, hot cache blocks out of batch's reach.

A thin subclass: before each step it shows the policies what there is, and it answers vLLM's own question "how many tokens may
this request have" (`_reserve_prefill_lookahead`, asked once for each request in both loops of `schedule`). The internals of
vLLM that are relied on are named and checked in tests/contract/test_vllm_internals.py.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.request import RequestStatus

from libs.core.clock import SystemClock
from services.engine.policy.arrivals import ArrivalForecast
from services.engine.policy.ordering import Standing, is_late, missed_key, order_key
from services.engine.policy.preemption import PreemptionGate, Victim, choose_victim
from services.engine.policy.step_budget import StepBudget, StepLoad, StepMode, chunk, next_budget
from services.engine.policy.step_time import StepTimeModel, StepWork
from services.engine.policy.tiering import Tier
from services.engine.vllm_ext import keys
from services.engine.vllm_ext.tiered_queue import TieredFreeQueue
from services.engine.vllm_ext.tuning import CoreTuning, merge, to_payload

# Putting batch work back costs its prompt again: a few at once for a burst, then one every two seconds.
_PREEMPTIONS_PER_S = 0.5
_PREEMPTION_BURST = 4.0

_CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class _Launched:
    """A step on its way."""

    begun_s: float
    work: StepWork


@dataclass(kw_only=True)
class _Counts:
    """Counters since the core started."""

    steps: int = 0
    realtime_tokens: int = 0
    batch_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0


class ClassAwareScheduler(AsyncScheduler):  # type: ignore[misc]  # vLLM has no types that mypy could follow
    """See the module. Needs scheduling_policy="priority"."""

    max_num_active_reqs: int
    max_num_scheduled_tokens: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tuning = CoreTuning(
            max_active_sequences=self.max_num_active_reqs, max_batched_tokens=self.max_num_scheduled_tokens
        )
        self._max_tokens = self.max_num_scheduled_tokens
        pool = self.kv_cache_manager.block_pool
        self._blocks = TieredFreeQueue(
            pool.free_block_queue,
            total_blocks=pool.num_gpu_blocks,
            rules=self._tuning.tier_rules,
            now_s=_CLOCK.monotonic_s,
        )
        pool.free_block_queue = self._blocks
        self._model = StepTimeModel()
        self._forecast = ArrivalForecast()
        self._gate = PreemptionGate(rate_per_s=_PREEMPTIONS_PER_S, burst=_PREEMPTION_BURST)
        self._realtime: dict[str, Any] = {}
        self._launched: deque[_Launched] = deque()
        self._ended_s = 0.0
        self._batch_left = 0
        self._budget = StepBudget(batch_tokens=0, mode=StepMode.BATCH_ONLY)
        self._step_s: float | None = None
        self._counts = _Counts()

    # What vLLM calls.

    def add_request(self, request: Any) -> None:
        """Give a new request its place in the order."""
        if request.request_id not in self.requests:
            standing = _standing(request)
            request.priority = order_key(standing)
            if standing.realtime:
                self._realtime[request.request_id] = request
                self._forecast.arrived(_CLOCK.monotonic_s())
        super().add_request(request)

    def schedule(self, throttle_prefills: bool = False) -> Any:
        """Fill the next step."""
        begun_s = _CLOCK.monotonic_s()
        self._prepare(begun_s)
        output = super().schedule(throttle_prefills)
        self._blocks.protect_hot = False
        self._launched.append(_Launched(begun_s=begun_s, work=self._account(output)))
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Learn from a step that ended."""
        self._learn()
        return super().update_from_output(scheduler_output, model_runner_output)

    def _reserve_prefill_lookahead(self, request: Any, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Say how many tokens a request may have in this step; 0: none."""
        tokens: int = super()._reserve_prefill_lookahead(request, num_computed_tokens, num_new_tokens)
        realtime = request.request_id in self._realtime
        # One request alone may use every block: nobody else could give it any.
        self._blocks.protect_hot = not realtime and len(self.running) > 1
        if realtime or self._tuning.static_batching:
            return tokens
        if request.status != RequestStatus.RUNNING and not self._batch_slot_free():
            return 0
        if num_computed_tokens >= request.num_prompt_tokens:
            return tokens
        tokens = chunk(tokens, self._batch_left, self._tuning.targets)
        self._batch_left -= tokens
        return tokens

    def _free_request_blocks(self, request: Any) -> None:
        """Mark the tier of a request's blocks before they become free."""
        extra = _extra(request)
        if extra.get(keys.HOT):
            now_s = _CLOCK.monotonic_s()
            for group in self.kv_cache_manager.get_blocks(request.request_id).blocks:
                for block in group:
                    if block.block_hash is not None:
                        self._blocks.hotness.mark(block.block_hash, now_s)
        self._blocks.discard = bool(extra.get(keys.ONE_SHOT)) and request.is_finished()
        super()._free_request_blocks(request)
        self._blocks.discard = False

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        self._realtime.pop(request.request_id, None)
        return super()._free_request(request, delay_free_blocks)

    # What the control channel calls, between steps.

    def apply_tuning(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """Set what the update names, clamped, and return everything that holds. Raises ValueError."""
        self._tuning = merge(self._tuning, update, max_sequences=self.max_num_running_reqs, max_tokens=self._max_tokens)
        self.max_num_active_reqs = self._tuning.active_limit
        self.max_num_scheduled_tokens = self._tuning.max_batched_tokens
        self._blocks.set_rules(self._tuning.tier_rules)
        return to_payload(self._tuning)

    def purge(self, share: float, tiers: frozenset[Tier]) -> int:
        """Forget a share of the cached blocks that nobody uses; returns how many."""
        block_ids = set(self._blocks.purgeable(share, tiers))
        self.kv_cache_manager.block_pool.evict_blocks(block_ids)
        return len(block_ids)

    def read(self) -> dict[str, Any]:
        """Return what telemetry shows, all plain values."""
        blocks, coefficients = self._blocks, self._model.coefficients
        realtime_running = sum(1 for request in self.running if request.request_id in self._realtime)
        return {
            "realtime_running": realtime_running,
            "realtime_waiting": len(self._realtime) - realtime_running,
            "batch_running": len(self.running) - realtime_running,
            "batch_waiting": len(self.requests) - len(self._realtime) - (len(self.running) - realtime_running),
            "steps": self._counts.steps,
            "step_s": self._step_s,
            "step_error_ratio": self._model.error_ratio,
            "step_base_s": coefficients.base_s,
            "step_prefill_token_s": coefficients.prefill_token_s,
            "step_decode_s": coefficients.decode_s,
            "mode": self._budget.mode.value,
            "realtime_tokens": self._counts.realtime_tokens,
            "batch_tokens": self._counts.batch_tokens,
            "preemptions": self._counts.preemptions,
            "recomputed_tokens": self._counts.recomputed_tokens,
            "active_limit": self.max_num_active_reqs,
            "kv_usage_ratio": self.kv_cache_manager.usage,
            "hot_blocks": blocks.hot_blocks,
            "cold_blocks": blocks.cold_blocks,
            **{f"{tier.value}_reused": count for tier, count in blocks.reused_total.items()},
            **{f"{tier.value}_evicted": count for tier, count in blocks.evicted_total.items()},
            **{f"{tier.value}_ghost_hits": ghosts.hits_total for tier, ghosts in blocks.ghosts.items()},
        }

    # One step.

    def _prepare(self, now_s: float) -> None:
        self._put_late_behind()
        self.running.sort(key=lambda request: request.priority)
        if self._tuning.static_batching:
            return
        self._make_room(now_s)
        self._budget = next_budget(self._model, self._tuning.targets, self._load(now_s))
        self._batch_left = self._budget.batch_tokens

    def _load(self, now_s: float) -> StepLoad:
        decodes = [request for request in self.running if request.num_computed_tokens >= request.num_prompt_tokens]
        waiting_tokens = sum(
            max(0, request.num_tokens - request.num_computed_tokens)
            for request in self._realtime.values()
            if request.num_computed_tokens < request.num_prompt_tokens
        )
        return StepLoad(
            realtime_present=bool(self._realtime),
            arrival_chance=self._forecast.chance_within(self._tuning.batch_step_s, now_s),
            realtime_prefill_tokens=waiting_tokens,
            decodes=len(decodes),
            context_ktokens=sum(request.num_computed_tokens for request in self.running) / 1000,
        )

    def _put_late_behind(self) -> None:
        """Realtime that has missed its own deadline makes way for that which can still meet its."""
        now_s = _CLOCK.wall_s()
        for request in self._realtime.values():
            later = missed_key(request.priority)
            if later != request.priority and is_late(_standing(request), now_s):
                queued = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
                if queued:
                    self.waiting.remove_request(request)
                request.priority = later
                if queued:
                    self.waiting.add_request(request)

    def _batch_slot_free(self) -> bool:
        """Whether batch may take another slot: the reserved ones are realtime's."""
        batch = sum(1 for request in self.running if request.request_id not in self._realtime)
        reserved = min(self._tuning.reserved_realtime_slots, self.max_num_active_reqs - 1)
        return batch < self.max_num_active_reqs - reserved

    def _make_room(self, now_s: float) -> None:
        """Put one batch request back where the first waiting realtime request finds no slot or no blocks."""
        if not self.waiting:
            return
        first = self.waiting.peek_request()
        if first.request_id not in self._realtime or self._fits(first):
            return
        victims = {
            request.request_id: request
            for request in self.running
            if request.request_id not in self._realtime and self._request_blocks_can_be_freed(request)
        }
        chosen = choose_victim([Victim(name, request.num_computed_tokens) for name, request in victims.items()])
        if chosen is None or not self._gate.allows(now_s):
            return
        victim = victims[chosen.request_id]
        self.running.remove(victim)
        self._preempt_request(victim, now_s)
        self._counts.preemptions += 1
        self._counts.recomputed_tokens += chosen.lost_tokens

    def _fits(self, request: Any) -> bool:
        blocks = -(-request.num_tokens // self.block_size)
        return len(self.running) < self.max_num_active_reqs and blocks <= self._blocks.num_free_blocks

    def _account(self, output: Any) -> StepWork:
        """Count what a step was filled with. vLLM has advanced num_computed_tokens by it already."""
        prefill = decodes = context = 0
        for name, tokens in output.num_scheduled_tokens.items():
            request = self.requests[name]
            context += request.num_computed_tokens
            if request.num_computed_tokens - tokens < request.num_prompt_tokens:
                prefill += tokens
            else:
                decodes += 1
            if name in self._realtime:
                self._counts.realtime_tokens += tokens
            else:
                self._counts.batch_tokens += tokens
        return StepWork(prefill, decodes, context / 1000)

    def _learn(self) -> None:
        """The oldest step on its way has ended. With two under way it began when the one before it ended."""
        now_s = _CLOCK.monotonic_s()
        launched = self._launched.popleft()
        if launched.work.prefill_tokens or launched.work.decodes:
            self._step_s = now_s - max(launched.begun_s, self._ended_s)
            self._counts.steps += 1
            self._model.learn(launched.work, self._step_s)
        self._ended_s = now_s


def _extra(request: Any) -> Mapping[str, Any]:
    params = request.sampling_params
    return (params.extra_args if params is not None else None) or {}


def _standing(request: Any) -> Standing:
    extra = _extra(request)
    return Standing(
        realtime=bool(extra.get(keys.REALTIME)),
        priority=int(extra.get(keys.PRIORITY, 0)),
        arrived_s=request.arrival_time,
        deadline_s=extra.get(keys.DEADLINE_S),
    )
