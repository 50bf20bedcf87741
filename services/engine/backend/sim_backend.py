"""A deterministic engine without a model: continuous batching, a block cache and a step-time model, in real or virtual time."""

import asyncio
from bisect import insort
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass

from libs.core.clock import Clock
from libs.limits.ewma import Ewma
from libs.limits.window import SlidingSum
from services.engine.backend.base import Backend
from services.engine.backend.sim_blocks import BlockPool
from services.engine.backend.sim_sequence import Sequence, answer_seed
from services.engine.domain import (
    BackendLostError,
    BackendRequest,
    BackendSnapshot,
    BackendStartError,
    Limits,
    TokenChunk,
    TuningValues,
)
from services.engine.policy.step_cost import StepCost, step_s
from services.engine.policy.step_plan import StepPlan, StepView, WaitingView, plan_step
from services.engine.policy.tuning import TuningBounds, clamp

_STEP_HALF_LIFE_S = 1.0
_BUSY_WINDOW_S = 1.0


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """What is simulated. `speed` divides the time of a step; 0 makes steps without waiting."""

    max_context_tokens: int
    max_active_sequences: int
    max_batched_tokens: int
    block_size_tokens: int
    kv_blocks: int
    cost: StepCost
    speed: float
    vocabulary_size: int
    seed: int


class SimBackend(Backend):
    """Implements the seam. One scheduler task owns all sequences and blocks; consumers only read their mailbox."""

    def __init__(self, options: SimOptions, *, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._pool = BlockPool(options.kv_blocks)
        self._bounds = TuningBounds(
            max_active_sequences=options.max_active_sequences, max_batched_tokens=options.max_batched_tokens
        )
        self._tuning = TuningValues(
            max_active_sequences=options.max_active_sequences, max_batched_tokens=options.max_batched_tokens
        )
        self._pending_tuning: list[tuple[TuningValues, asyncio.Future[TuningValues]]] = []
        self._waiting: list[Sequence] = []
        self._prefilling: list[Sequence] = []
        self._decoding: list[Sequence] = []
        self._some_cancelled = False
        self._arrivals = 0
        self._work = asyncio.Event()
        self._scheduler: asyncio.Task[None] | None = None
        self._loss: BackendLostError | None = None
        self._lost = asyncio.Event()
        self._steps_total = 0
        self._last_step_at_s: float | None = None
        self._step_s = Ewma(half_life_s=_STEP_HALF_LIFE_S)
        self._busy = SlidingSum(window_s=_BUSY_WINDOW_S)
        self._query_tokens = 0
        self._hit_tokens = 0

    async def start(self) -> Limits:
        """Begin to make steps. Raises BackendStartError where one request of the whole context cannot have its blocks."""
        options = self._options
        if options.kv_blocks * options.block_size_tokens < options.max_context_tokens:
            raise BackendStartError(
                f"sim.kv_blocks: {options.kv_blocks} blocks of {options.block_size_tokens} tokens hold less than one context"
                f" of {options.max_context_tokens}"
            )
        self._scheduler = asyncio.create_task(self._run(), name="sim scheduler")
        return Limits(
            max_context_tokens=options.max_context_tokens,
            max_active_sequences=options.max_active_sequences,
            max_batched_tokens=options.max_batched_tokens,
            block_size_tokens=options.block_size_tokens,
            kv_blocks=options.kv_blocks,
            kv_cache_bytes=0,
        )

    async def generate(self, request: BackendRequest) -> AsyncGenerator[TokenChunk, None]:
        """Yield one chunk a token, each at the end of its step."""
        sequence = self._submit(request)
        try:
            while True:
                chunk = await sequence.mailbox.get()
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self._leave(sequence)

    async def apply_tuning(self, values: TuningValues) -> TuningValues:
        """Set the values at the next step boundary."""
        self._raise_if_lost()
        applied: asyncio.Future[TuningValues] = asyncio.get_running_loop().create_future()
        self._pending_tuning.append((values, applied))
        self._work.set()
        return await applied

    def snapshot(self) -> BackendSnapshot:
        """Return the newest reading."""
        return BackendSnapshot(
            steps_total=self._steps_total,
            last_step_at_s=self._last_step_at_s,
            step_s=self._step_s.value,
            busy_ratio=min(1.0, self._busy.per_second(now_s=self._clock.monotonic_s())),
            kv_usage_ratio=self._pool.used / self._pool.capacity,
            prefix_query_tokens_total=self._query_tokens,
            prefix_hit_tokens_total=self._hit_tokens,
            preemptions_total=0,
        )

    async def wait_lost(self) -> BackendLostError:
        """Return when `lose` was called or the scheduler failed."""
        await self._lost.wait()
        return self._loss or BackendLostError("the core ended")

    def lose(self, reason: str) -> None:
        """End the core as a crash would: running requests fail, nothing works afterwards."""
        if self._scheduler is not None:
            self._scheduler.cancel()
        self._end(reason)
        self._lost.set()

    async def stop(self) -> None:
        """End the scheduler; running requests end with BackendLostError."""
        if self._scheduler is not None:
            self._scheduler.cancel()
            await asyncio.gather(self._scheduler, return_exceptions=True)
        self._end("the backend was stopped")

    def _submit(self, request: BackendRequest) -> Sequence:
        self._raise_if_lost()
        self._arrivals += 1
        sequence = Sequence(
            request,
            order=self._arrivals,
            block_size_tokens=self._options.block_size_tokens,
            seed=answer_seed(self._options.seed, request),
        )
        insort(self._waiting, sequence, key=_rank)
        self._work.set()
        return sequence

    def _leave(self, sequence: Sequence) -> None:
        """The consumer is gone; a sequence that is not finished is dropped at the next boundary."""
        if not sequence.finished:
            sequence.cancelled = True
            self._some_cancelled = True
            self._work.set()

    def _raise_if_lost(self) -> None:
        if self._loss is not None:
            raise self._loss
        if self._scheduler is None:
            raise BackendLostError("the backend was not started")

    async def _run(self) -> None:
        try:
            while True:
                await self._work.wait()
                self._settle()
                if self._waiting or self._prefilling or self._decoding:
                    await self._step()
                else:
                    self._work.clear()
        except Exception as error:
            self._end(f"the scheduler failed: {error!r}")
            self._lost.set()
            raise

    def _settle(self) -> None:
        """What happens at a step boundary, before the step: cancelled requests go, tuning comes."""
        if self._some_cancelled:
            self._some_cancelled = False
            self._drop_cancelled()
        for values, applied in self._pending_tuning:
            self._tuning = clamp(values, self._bounds).values
            if not applied.done():
                applied.set_result(self._tuning)
        self._pending_tuning.clear()

    def _drop_cancelled(self) -> None:
        for sequence in (*self._prefilling, *self._decoding):
            if sequence.cancelled:
                self._free(sequence)
        self._waiting = [each for each in self._waiting if not each.cancelled]
        self._prefilling = [each for each in self._prefilling if not each.cancelled]
        self._decoding = [each for each in self._decoding if not each.cancelled]

    async def _step(self) -> None:
        plan = plan_step(self._view())
        self._admit(len(plan.admitted_tokens))
        runs = self._decoding[: plan.decodes]
        duration_s = step_s(
            self._options.cost,
            prompt_tokens=plan.prompt_tokens,
            decodes=plan.decodes,
            context_tokens=sum(each.context_tokens for each in runs) if self._options.cost.context_ktoken_ms else 0,
        )
        began_s = self._clock.monotonic_s()
        await asyncio.sleep(duration_s / self._options.speed if self._options.speed else 0)
        self._commit(plan, runs)
        self._measure(began_s)

    def _view(self) -> StepView:
        return StepView(
            decoding=len(self._decoding),
            prefilling=[each.prompt_left for each in self._prefilling],
            waiting=self._waiting_views(),
            max_active_sequences=self._tuning.max_active_sequences,
            max_batched_tokens=self._tuning.max_batched_tokens,
            free_blocks=self._pool.free,
        )

    def _waiting_views(self) -> Iterator[WaitingView]:
        for each in self._waiting:
            hit_tokens = self._pool.hits(each.hashes) * self._options.block_size_tokens
            yield WaitingView(each.prompt_left - hit_tokens, self._pool.cost(each.hashes, each.blocks))

    def _admit(self, count: int) -> None:
        for sequence in self._waiting[:count]:
            sequence.lease = self._pool.acquire(sequence.hashes, sequence.blocks)
            sequence.cached_tokens = len(sequence.lease.pinned) * self._options.block_size_tokens
            self._query_tokens += sequence.prompt_left
            self._hit_tokens += sequence.cached_tokens
            sequence.prompt_left -= sequence.cached_tokens
        self._prefilling += self._waiting[:count]
        del self._waiting[:count]

    def _commit(self, plan: StepPlan, runs: list[Sequence]) -> None:
        """Hand out the step's tokens. Sequences that had no turn come first in the next step."""
        started = self._advance_prompts(plan.prefill_tokens + plan.admitted_tokens)
        for sequence in (*runs, *started):
            if not sequence.cancelled:
                sequence.speak(self._options.vocabulary_size)
            if sequence.finished:
                self._free(sequence)
        self._decoding = [each for each in (*self._decoding[len(runs) :], *runs, *started) if not each.finished]

    def _advance_prompts(self, chunks: tuple[int, ...]) -> list[Sequence]:
        """Compute prompt tokens; return the sequences whose prompt is complete, which say their first token in this step."""
        started = []
        for sequence, chunk in zip(self._prefilling, chunks, strict=True):
            sequence.prompt_left -= min(chunk, sequence.prompt_left)
            if sequence.prompt_left == 0 and sequence.lease is not None:
                self._pool.publish(sequence.lease, sequence.hashes)
                started.append(sequence)
        if started:
            self._prefilling = [each for each in self._prefilling if each.prompt_left]
        return started

    def _measure(self, began_s: float) -> None:
        now_s = self._clock.monotonic_s()
        self._steps_total += 1
        self._last_step_at_s = now_s
        self._step_s.add(now_s - began_s, now_s=now_s)
        self._busy.add(now_s - began_s, now_s=now_s)

    def _free(self, sequence: Sequence) -> None:
        if sequence.lease is not None:
            self._pool.release(sequence.lease)
            sequence.lease = None

    def _end(self, reason: str) -> None:
        if self._loss is not None:
            return
        self._loss = BackendLostError(reason)
        for sequence in (*self._waiting, *self._prefilling, *self._decoding):
            self._free(sequence)
            sequence.mailbox.fail(self._loss)
        self._waiting, self._prefilling, self._decoding = [], [], []
        for _, applied in self._pending_tuning:
            if not applied.done():
                applied.set_exception(self._loss)
        self._pending_tuning.clear()


def _rank(sequence: Sequence) -> tuple[int, int]:
    return sequence.rank
