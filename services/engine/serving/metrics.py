"""What an engine shows to Prometheus."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from libs.core.lanes import LANES, Lane
from libs.core.outcomes import Outcome
from libs.telemetry import names
from services.engine.domain import BackendRequest

_NO_LANE = "none"


class EndedCall(Protocol):
    """What is measured of a call; times are monotonic seconds."""

    received_s: float
    first_token_at_s: float | None
    last_token_at_s: float
    completion_tokens: int
    cached_tokens: int
    outcome: Outcome


class EngineMetrics:
    """Metrics pushed by calls, and gauges that are read when scraped."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._requests = Counter(
            names.ENGINE_REQUESTS, "Requests by lane and end", (names.LANE, names.OUTCOME), registry=registry
        )
        self._first_token = _by_lane(
            Histogram(
                names.ENGINE_FIRST_TOKEN_SECONDS,
                "Receipt to first token",
                (names.LANE,),
                buckets=names.LATENCY_BUCKETS,
                registry=registry,
            )
        )
        self._total = _by_lane(
            Histogram(
                names.ENGINE_REQUEST_SECONDS,
                "Receipt to last token of answered requests",
                (names.LANE,),
                buckets=names.LATENCY_BUCKETS,
                registry=registry,
            )
        )
        self._prompt_tokens = Counter(names.ENGINE_PROMPT_TOKENS, "Prompt tokens computed", (names.LANE,), registry=registry)
        self._completion_tokens = Counter(names.ENGINE_COMPLETION_TOKENS, "Tokens generated", (names.LANE,), registry=registry)

    def observe_call(self, request: BackendRequest, call: EndedCall) -> None:
        """Count one accepted request that has ended."""
        lane = request.lane.name
        self._requests.labels(lane, call.outcome).inc()
        self._completion_tokens.labels(lane).inc(call.completion_tokens)
        if call.first_token_at_s is not None:
            self._first_token[request.lane].observe(call.first_token_at_s - call.received_s)
            self._prompt_tokens.labels(lane).inc(len(request.token_ids) - call.cached_tokens)
        if call.outcome is Outcome.ANSWERED:
            self._total[request.lane].observe(call.last_token_at_s - call.received_s)

    def count_refused(self, outcome: Outcome) -> None:
        """Count a request that was not accepted."""
        self._requests.labels(_NO_LANE, outcome).inc()

    def show(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read at each scrape, from the scraper's thread: `read` must not change anything."""
        Gauge(name, help_text, registry=self._registry).set_function(read)

    def show_by_lane(self, name: str, help_text: str, read: Callable[[Lane], float]) -> None:
        """Add a gauge for each lane, as `show` does."""
        gauge = Gauge(name, help_text, (names.LANE,), registry=self._registry)
        for lane in LANES:
            gauge.labels(lane.name).set_function(partial(read, lane))


def _by_lane(histogram: Histogram) -> dict[Lane, Histogram]:
    return {lane: histogram.labels(lane.name) for lane in LANES}
