"""Leases of calls, and what is counted of them."""

import pytest
from prometheus_client import CollectorRegistry

from libs.core.clock import ManualClock
from libs.core.lanes import Lane
from libs.core.outcomes import Outcome
from services.engine.domain import BackendRequest, TokenChunk
from services.engine.serving.errors import DuplicateRequestError
from services.engine.serving.ledger import LaneReading, Ledger
from services.engine.serving.metrics import EngineMetrics


def request(name: str = "r") -> BackendRequest:
    return BackendRequest(request_id=name, token_ids=[1] * 10, lane=Lane.BATCH, max_new_tokens=5)


def chunk(*tokens: int, cached: int = 0) -> TokenChunk:
    return TokenChunk(text="x", token_ids=tokens, cached_tokens=cached)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def ledger(clock: ManualClock, registry: CollectorRegistry) -> Ledger:
    return Ledger(clock=clock, metrics=EngineMetrics(registry), latency_window_s=60.0)


def batch(ledger: Ledger) -> LaneReading:
    return ledger.readings()[1]


def test_open_before_the_first_token_counts_as_waiting(ledger: Ledger) -> None:
    with ledger.open(request(), received_s=0.0):
        lane = batch(ledger)
        assert (lane.waiting, lane.waiting_prompt_tokens, lane.running, ledger.in_flight) == (1, 10, 0, 1)


def test_take_of_the_first_chunk_moves_it_to_running(ledger: Ledger, clock: ManualClock) -> None:
    with ledger.open(request(), received_s=0.0) as lease:
        clock.advance(0.5)
        lease.take(chunk(7, cached=4))
        lane = batch(ledger)
        assert (lane.waiting, lane.waiting_prompt_tokens, lane.running) == (0, 0, 1)
        assert (lane.prompt_tokens_total, lane.completion_tokens_total) == (6, 1)
        assert lane.first_token_s is not None
        assert lane.first_token_s.p99 == 0.5


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        pytest.param(Outcome.ANSWERED, (1, 0, 0), id="answered"),
        pytest.param(Outcome.CANCELLED, (0, 1, 0), id="cancelled"),
        pytest.param(Outcome.DEADLINE, (0, 1, 0), id="deadline"),
        pytest.param(Outcome.ENGINE_LOST, (0, 0, 1), id="lost"),
        pytest.param(Outcome.INTERNAL, (0, 0, 1), id="internal"),
    ],
)
def test_close_with_an_outcome_counts_it_once(
    ledger: Ledger, registry: CollectorRegistry, outcome: Outcome, counts: tuple[int, int, int]
) -> None:
    with ledger.open(request(), received_s=0.0) as lease:
        lease.outcome = outcome
    lane = batch(ledger)
    assert (lane.finished_total, lane.cancelled_total, lane.failed_total) == counts
    assert (lane.waiting, lane.running, ledger.in_flight) == (0, 0, 0)
    labels = {"lane": "BATCH", "outcome": outcome.value}
    assert registry.get_sample_value("twinlane_engine_requests_total", labels) == 1


def test_open_of_a_name_in_use_is_refused_until_it_ends(ledger: Ledger) -> None:
    with ledger.open(request(), received_s=0.0), pytest.raises(DuplicateRequestError):
        ledger.open(request(), received_s=0.0).__enter__()
    with ledger.open(request(), received_s=0.0):
        assert ledger.in_flight == 1


def test_prompt_rate_counts_only_time_with_a_backlog(ledger: Ledger, clock: ManualClock) -> None:
    assert ledger.prompt_tokens_per_s() is None
    with ledger.open(request(), received_s=0.0) as lease:
        clock.advance(0.1)
        lease.take(chunk(1))
        clock.advance(50.0)
    clock.advance(50.0)
    assert ledger.prompt_tokens_per_s() == pytest.approx(100.0)


def test_working_while_the_caller_reads_slowly_leaves_it_out(ledger: Ledger) -> None:
    with ledger.open(request(), received_s=0.0) as lease:
        lease.writing = True
        assert (ledger.in_flight, ledger.working) == (1, 0)


def test_completion_rate_after_tokens_is_over_five_seconds(ledger: Ledger) -> None:
    assert ledger.completion_tokens_per_s() is None
    with ledger.open(request(), received_s=0.0) as lease:
        lease.take(chunk(1, 2, 3, 4, 5))
        assert ledger.completion_tokens_per_s() == pytest.approx(1.0)
