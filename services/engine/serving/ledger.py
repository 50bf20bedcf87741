"""Who is being served: one lease per call, counters and latencies per lane.

A lease is taken when a request is accepted and ends with the call, whatever way it ends; its lane's counts follow.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from libs.core.clock import Clock
from libs.core.lanes import LANES, Lane
from libs.core.outcomes import Outcome
from libs.limits.window import QuantileSummary, SlidingQuantiles, SlidingSum
from services.engine.domain import BackendRequest, TokenChunk
from services.engine.policy import active_rate
from services.engine.policy.active_rate import ActiveRate
from services.engine.serving.errors import DuplicateRequestError
from services.engine.serving.metrics import EngineMetrics

# Shorter and the rate flickers with each batch of tokens; longer and it lags behind the load.
_COMPLETION_WINDOW_S = 5.0


@dataclass(frozen=True, kw_only=True)
class LaneReading:
    """One lane at one moment; names and units as in twinlane.engine.v1.LaneSnapshot, latencies in seconds."""

    lane: Lane
    waiting: int
    running: int
    waiting_prompt_tokens: int
    prompt_tokens_total: int
    completion_tokens_total: int
    finished_total: int
    cancelled_total: int
    failed_total: int
    first_token_s: QuantileSummary | None
    total_s: QuantileSummary | None


class LaneCounts:
    """Counts of one lane since the epoch began."""

    def __init__(self, lane: Lane, *, latency_window_s: float) -> None:
        self.lane = lane
        self.waiting = 0
        self.running = 0
        self.waiting_prompt_tokens = 0
        self.prompt_tokens_total = 0
        self.completion_tokens_total = 0
        self.finished_total = 0
        self.cancelled_total = 0
        self.failed_total = 0
        self.first_token_s = SlidingQuantiles(window_s=latency_window_s)
        self.total_s = SlidingQuantiles(window_s=latency_window_s)

    def reading(self, now_s: float) -> LaneReading:
        """Return the counts now."""
        return LaneReading(
            lane=self.lane,
            waiting=self.waiting,
            running=self.running,
            waiting_prompt_tokens=self.waiting_prompt_tokens,
            prompt_tokens_total=self.prompt_tokens_total,
            completion_tokens_total=self.completion_tokens_total,
            finished_total=self.finished_total,
            cancelled_total=self.cancelled_total,
            failed_total=self.failed_total,
            first_token_s=self.first_token_s.summary(now_s=now_s),
            total_s=self.total_s.summary(now_s=now_s),
        )

    def close(self, outcome: Outcome) -> None:
        """Count the end of an accepted request."""
        match outcome:
            case Outcome.ANSWERED:
                self.finished_total += 1
            case Outcome.CANCELLED | Outcome.DEADLINE:
                self.cancelled_total += 1
            case _:
                self.failed_total += 1


class CallLease:
    """One accepted request, from its receipt to its end. Times are monotonic seconds."""

    def __init__(self, ledger: "Ledger", lane: LaneCounts, request: BackendRequest, received_s: float) -> None:
        self._ledger = ledger
        self._lane = lane
        self._prompt_tokens = len(request.token_ids)
        self.received_s = received_s
        self.first_token_at_s: float | None = None
        self.last_token_at_s = received_s
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.tokens_sent = 0
        # Set while the caller is slow to read, so that the engine is not taken for stalled.
        self.writing = False
        self.outcome = Outcome.CANCELLED

    def take(self, chunk: TokenChunk) -> None:
        """Count a chunk; the first one moves the request from waiting to running."""
        now_s = self._ledger.clock.monotonic_s()
        if self.first_token_at_s is None:
            self._begin(chunk, now_s)
        tokens = len(chunk.token_ids)
        self.completion_tokens += tokens
        self.last_token_at_s = now_s
        self._lane.completion_tokens_total += tokens
        self._ledger.count_completion(tokens, now_s)

    def _begin(self, chunk: TokenChunk, now_s: float) -> None:
        self.first_token_at_s = now_s
        self.cached_tokens = chunk.cached_tokens
        computed = self._prompt_tokens - chunk.cached_tokens
        self._ledger.count_prompt(computed, now_s)
        self._lane.prompt_tokens_total += computed
        self._leave_queue()
        self._lane.running += 1
        self._lane.first_token_s.add(now_s - self.received_s, now_s=now_s)

    def _leave_queue(self) -> None:
        self._lane.waiting -= 1
        self._lane.waiting_prompt_tokens -= self._prompt_tokens

    def enter_queue(self) -> None:
        """Count the request as waiting; called once, by the ledger."""
        self._lane.waiting += 1
        self._lane.waiting_prompt_tokens += self._prompt_tokens

    def close(self) -> None:
        """Count the end with `outcome`; called once, by the ledger."""
        if self.first_token_at_s is None:
            self._leave_queue()
        else:
            self._lane.running -= 1
        if self.outcome is Outcome.ANSWERED:
            self._lane.total_s.add(self.last_token_at_s - self.received_s, now_s=self.last_token_at_s)
        self._lane.close(self.outcome)


class Ledger:
    """All calls in flight and what came of those before. `changes` grows with each of them."""

    def __init__(self, *, clock: Clock, metrics: EngineMetrics, latency_window_s: float) -> None:
        self.clock = clock
        self.changes = 0
        self._metrics = metrics
        self._calls: dict[str, CallLease] = {}
        self._lanes = {lane: LaneCounts(lane, latency_window_s=latency_window_s) for lane in LANES}
        self._idle = asyncio.Event()
        self._idle.set()
        self._prompt_rate = ActiveRate()
        self._rate_at_s = clock.monotonic_s()
        self._completions = SlidingSum(window_s=_COMPLETION_WINDOW_S)

    @property
    def in_flight(self) -> int:
        """Calls accepted and not ended."""
        return len(self._calls)

    @property
    def working(self) -> int:
        """Calls that wait for the backend rather than for their caller to read."""
        return sum(1 for call in self._calls.values() if not call.writing)

    def lane(self, lane: Lane) -> LaneCounts:
        """Return the counts of one lane, to be read."""
        return self._lanes[lane]

    def check_name(self, request_id: str) -> None:
        """Raise DuplicateRequestError while a call of that name is in flight."""
        if request_id in self._calls:
            raise DuplicateRequestError(request_id)

    @contextmanager
    def open(self, request: BackendRequest, *, received_s: float) -> Iterator[CallLease]:
        """Accept a request for the life of the block. Raises DuplicateRequestError while its name is in use.

        The lease's `outcome` at the end of the block is what is counted; it starts as CANCELLED.
        """
        self.check_name(request.request_id)
        lease = CallLease(self, self._lanes[request.lane], request, received_s)
        self._pass_time(self.clock.monotonic_s())
        self._calls[request.request_id] = lease
        self._idle.clear()
        lease.enter_queue()
        self.changes += 1
        try:
            yield lease
        finally:
            self._close(request, lease)

    def readings(self) -> list[LaneReading]:
        """Return every lane, in the order REALTIME, BATCH, AUTO."""
        now_s = self.clock.monotonic_s()
        return [lane.reading(now_s) for lane in self._lanes.values()]

    def prompt_tokens_per_s(self) -> float | None:
        """Rate at which prompts are computed while some wait; None before the first."""
        self._pass_time(self.clock.monotonic_s())
        return active_rate.per_second(self._prompt_rate)

    def completion_tokens_per_s(self) -> float | None:
        """Tokens generated per second over the last five; None before the first."""
        if not any(lane.completion_tokens_total for lane in self._lanes.values()):
            return None
        return self._completions.per_second(now_s=self.clock.monotonic_s())

    async def wait_idle(self) -> None:
        """Return when no call is in flight."""
        await self._idle.wait()

    def count_prompt(self, tokens: int, now_s: float) -> None:
        """Count a computed prompt while its request still waits."""
        self._pass_time(now_s)
        self._prompt_rate = active_rate.count(self._prompt_rate, tokens)

    def count_completion(self, tokens: int, now_s: float) -> None:
        """Count generated tokens."""
        self.changes += 1
        self._completions.add(tokens, now_s=now_s)

    def _close(self, request: BackendRequest, lease: CallLease) -> None:
        self._pass_time(self.clock.monotonic_s())
        lease.close()
        del self._calls[request.request_id]
        self.changes += 1
        self._metrics.observe_call(request, lease)
        if not self._calls:
            self._idle.set()

    def _pass_time(self, now_s: float) -> None:
        """Bring the prompt rate up to now; time counts only where requests were waiting. Called before each change."""
        if any(lane.waiting for lane in self._lanes.values()):
            self._prompt_rate = active_rate.advance(self._prompt_rate, now_s - self._rate_at_s)
        self._rate_at_s = now_s
