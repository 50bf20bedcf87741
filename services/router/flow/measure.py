"""What is measured of calls: one `Call` each, counted when it ends, whatever its end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from libs.core.clock import Clock
from libs.core.lanes import LANES, Lane
from libs.core.outcomes import Outcome
from libs.telemetry import names
from services.router.domain import Need

ToOutcome = Callable[[BaseException], Outcome]

# grpc's timeout encoder keeps two to three significant digits.
_DEADLINE_ROUNDING_RATIO = 0.01
# The caller's cancel is on its way for less than this.
_TRANSIT_S = 0.01

_REFUSED = frozenset(Outcome) - {Outcome.ANSWERED}


class Call:
    """One call's facts as they become known. Times are Clock.monotonic_s()."""

    __slots__ = (
        "attempts",
        "called_s",
        "deadline_s",
        "first_token_s",
        "lane",
        "need",
        "on_placed",
        "placed_in",
        "received_s",
        "request_id",
    )

    def __init__(self, received_s: float, on_placed: Callable[[Lane, int], None]) -> None:
        self.received_s = received_s
        self.on_placed = on_placed
        self.lane = Lane.AUTO
        self.placed_in: Lane | None = None
        self.need = Need(0, 0)
        self.request_id = ""
        self.deadline_s = received_s
        self.called_s = received_s
        self.first_token_s: float | None = None
        self.attempts = 0

    def placed(self, lane: Lane, *, prompt_tokens: int) -> None:
        """The lane is decided."""
        self.lane = self.placed_in = lane
        self.on_placed(lane, prompt_tokens)

    def attempt(self, now_s: float) -> None:
        """An engine is called."""
        self.attempts += 1
        self.called_s = now_s

    def first_token(self, now_s: float) -> None:
        """The first token is there."""
        self.first_token_s = now_s

    @property
    def queue_ms(self) -> float:
        """From the router's receipt to the last call of an engine."""
        return (self.called_s - self.received_s) * 1000

    def elapsed_ms(self, now_s: float) -> float:
        """From the router's receipt to now."""
        return (now_s - self.received_s) * 1000


@dataclass(frozen=True, kw_only=True)
class LaneCounts:
    """One lane's work on this router."""

    in_flight: int
    answered_total: int
    failed_total: int


class Measures:
    """The router's metrics. Label children are looked up once: a call pays for counting only."""

    def __init__(self, registry: CollectorRegistry, *, to_outcome: ToOutcome) -> None:
        self._to_outcome = to_outcome
        ended = Counter(names.ROUTER_REQUESTS, "Calls ended", (names.LANE, names.OUTCOME), registry=registry)
        in_flight = Gauge(names.ROUTER_IN_FLIGHT, "Calls in flight", (names.LANE,), registry=registry)
        first = Histogram(
            names.ROUTER_FIRST_TOKEN_SECONDS,
            "From receipt to first token",
            (names.LANE,),
            buckets=names.LATENCY_BUCKETS,
            registry=registry,
        )
        total = Histogram(
            names.ROUTER_REQUEST_SECONDS,
            "From receipt to the end",
            (names.LANE,),
            buckets=names.LATENCY_BUCKETS,
            registry=registry,
        )
        overhead = Histogram(
            names.ROUTER_OVERHEAD_SECONDS,
            "From receipt to the call of an engine",
            buckets=names.LATENCY_BUCKETS,
            registry=registry,
        )
        prompt = Counter(names.ROUTER_PROMPT_TOKENS, "Prompt tokens accepted", (names.LANE,), registry=registry)
        labels = {lane: lane.name.lower() for lane in LANES}
        self._ended = {(lane, out): ended.labels(labels[lane], out.value) for lane in LANES for out in Outcome}
        self._unplaced = {out: ended.labels("none", out.value) for out in Outcome}
        self._in_flight = {lane: in_flight.labels(labels[lane]) for lane in LANES}
        self._first = {lane: first.labels(labels[lane]) for lane in LANES}
        self._total = {lane: total.labels(labels[lane]) for lane in LANES}
        self._prompt = {lane: prompt.labels(labels[lane]) for lane in LANES}
        self._overhead = overhead
        self._counts = {lane: [0, 0, 0] for lane in LANES}

    def lane_counts(self, lane: Lane) -> LaneCounts:
        """Return one lane's counts."""
        in_flight, answered, failed = self._counts[lane]
        return LaneCounts(in_flight=in_flight, answered_total=answered, failed_total=failed)

    @contextmanager
    def measured(self, clock: Clock) -> Iterator[Call]:
        """Measure one call: counted once, by what ended it."""
        call = Call(clock.monotonic_s(), self._placed)
        outcome = Outcome.ANSWERED
        try:
            yield call
        except (Exception, asyncio.CancelledError) as error:
            # gRPC ends a call whose deadline passes as it does a call that is cancelled.
            spent = isinstance(error, asyncio.CancelledError) and _is_spent(call, clock.monotonic_s())
            outcome = Outcome.DEADLINE if spent else self._to_outcome(error)
            raise
        finally:
            self._end(call, outcome, clock.monotonic_s())

    def _placed(self, lane: Lane, prompt_tokens: int) -> None:
        self._counts[lane][0] += 1
        self._in_flight[lane].inc()
        self._prompt[lane].inc(prompt_tokens)

    def _end(self, call: Call, outcome: Outcome, now_s: float) -> None:
        lane = call.placed_in
        if lane is None:
            self._unplaced[outcome].inc()
            return
        counts = self._counts[lane]
        counts[0] -= 1
        counts[2 if outcome in _REFUSED else 1] += 1
        self._in_flight[lane].dec()
        self._ended[lane, outcome].inc()
        if call.attempts:
            self._overhead.observe(call.called_s - call.received_s)
        if call.first_token_s is not None:
            self._first[lane].observe(call.first_token_s - call.received_s)
        self._total[lane].observe(now_s - call.received_s)


def _is_spent(call: Call, now_s: float) -> bool:
    """gRPC rounds a deadline up on its way here; the caller's own ends before that."""
    rounding_s = (call.deadline_s - call.received_s) * _DEADLINE_ROUNDING_RATIO
    return call.placed_in is not None and now_s >= call.deadline_s - rounding_s - _TRANSIT_S
