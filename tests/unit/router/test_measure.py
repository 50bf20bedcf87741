"""What a call counts as when it ends."""

import asyncio
from contextlib import nullcontext

import pytest
from prometheus_client import CollectorRegistry

from libs.core.clock import ManualClock
from libs.core.lanes import Lane
from libs.telemetry import names
from services.router.api.status import to_outcome
from services.router.domain import NoEngineError
from services.router.flow.measure import LaneCounts, Measures


def end(error: BaseException | None, *, after_s: float, deadline_s: float = 1.0) -> CollectorRegistry:
    """Return the metrics after one batch call that ended so."""
    registry, clock = CollectorRegistry(), ManualClock()
    measures = Measures(registry, to_outcome=to_outcome)
    expected = nullcontext() if error is None else pytest.raises(type(error))
    with expected, measures.measured(clock) as call:
        call.placed(Lane.BATCH, prompt_tokens=7)
        call.deadline_s = call.received_s + deadline_s
        clock.advance(after_s)
        if error is not None:
            raise error
    assert measures.lane_counts(Lane.BATCH) == LaneCounts(
        in_flight=0, answered_total=int(error is None), failed_total=int(error is not None)
    )
    return registry


@pytest.mark.parametrize(
    ("error", "after_s", "outcome"),
    [
        pytest.param(None, 0.5, "answered", id="answered"),
        pytest.param(NoEngineError(Lane.BATCH, ("batch",)), 0.5, "no_engine", id="refused"),
        pytest.param(ValueError("x"), 0.5, "internal", id="unforeseen"),
        pytest.param(asyncio.CancelledError(), 0.5, "cancelled", id="cancelled-before-the-deadline"),
        pytest.param(asyncio.CancelledError(), 0.99, "deadline", id="ended-by-the-deadline-as-the-caller-counts-it"),
        pytest.param(asyncio.CancelledError(), 1.0, "deadline", id="ended-by-the-deadline"),
    ],
)
def test_call_counts_once_by_what_ended_it(error: BaseException | None, after_s: float, outcome: str) -> None:
    registry = end(error, after_s=after_s)

    labels = {names.LANE: "batch", names.OUTCOME: outcome}
    assert registry.get_sample_value(names.ROUTER_REQUESTS, labels) == 1
    assert registry.get_sample_value(names.ROUTER_IN_FLIGHT, {names.LANE: "batch"}) == 0
