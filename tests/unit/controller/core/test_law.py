"""The batch law, one sample a line with exact numbers."""

from dataclasses import replace

import pytest

from services.controller.core.law import LawInput, grown, lowered, propose, shrunk
from services.controller.core.readings import LatencyReading
from services.controller.core.settings import LawSettings
from services.controller.domain import DecisionReason as Reason
from tests.unit.controller.samples import reading

LAW = LawSettings()


def _given(*, growth_factor: float = 1.5, growth_p99_ms: float | None = None, limit: int = 16, **changes: object) -> LawInput:
    return LawInput(
        reading=reading(limit=limit, **changes),  # type: ignore[arg-type]  # the sample checks its own fields
        limit=limit,
        growth_factor=growth_factor,
        growth_p99_ms=growth_p99_ms,
        slo_ms=100.0,
    )


@pytest.mark.parametrize(
    ("limit", "factor", "most", "expected"),
    [
        pytest.param(1, 1.5, 64, 2, id="at least one more"),
        pytest.param(4, 1.5, 64, 6, id="below the step: not aligned"),
        pytest.param(5, 1.5, 64, 7, id="rounded down"),
        pytest.param(6, 1.5, 64, 8, id="over the step: aligned down"),
        pytest.param(8, 1.5, 64, 16, id="at least one step"),
        pytest.param(16, 1.5, 64, 24, id="exactly three steps"),
        pytest.param(16, 1.3, 64, 24, id="small factor still makes a step"),
        pytest.param(24, 1.8, 64, 40, id="aligned down from 43"),
        pytest.param(45, 1.5, 64, 64, id="aligned down from 67"),
        pytest.param(48, 1.8, 64, 64, id="bounded by the engine"),
        pytest.param(16, 1.5, 20, 20, id="bound that is no multiple"),
    ],
)
def test_grown_limit_is_aligned_and_bounded(limit: int, factor: float, most: int, expected: int) -> None:
    assert grown(limit, factor=factor, step=8, most=most) == expected


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(64, 57, id="64"),
        pytest.param(57, 51, id="57"),
        pytest.param(16, 14, id="16"),
        pytest.param(10, 9, id="10"),
        pytest.param(5, 4, id="at least one less"),
        pytest.param(4, 4, id="at the least"),
        pytest.param(2, 2, id="under the least: stays"),
    ],
)
def test_shrunk_limit_is_nine_tenths_at_least_one_less_not_under_the_least(limit: int, expected: int) -> None:
    assert shrunk(limit, factor=0.9, least=4) == expected


@pytest.mark.parametrize(
    ("given", "limit", "reason"),
    [
        pytest.param(_given(p99_ms=100.1), 14, Reason.LATENCY_OVER_SLO, id="P99 just over the SLO"),
        pytest.param(_given(p99_ms=100.0), 16, Reason.STEADY, id="P99 at the SLO"),
        pytest.param(_given(p99_ms=90.1), 16, Reason.STEADY, id="P99 in the dead band"),
        pytest.param(_given(p99_ms=90.0), 24, Reason.ROOM_TO_GROW, id="P99 with slack"),
        pytest.param(_given(), 24, Reason.ROOM_TO_GROW, id="no realtime traffic"),
        pytest.param(_given(p99_ms=500.0, count=19), 16, Reason.TOO_FEW_SAMPLES, id="19 of 20 samples"),
        pytest.param(_given(p99_ms=500.0, count=20), 14, Reason.LATENCY_OVER_SLO, id="20 of 20 samples"),
        pytest.param(_given(kv_usage_ratio=0.75), 16, Reason.STEADY, id="cache use at the ceiling"),
        pytest.param(_given(kv_usage_ratio=0.749), 24, Reason.ROOM_TO_GROW, id="cache use under the ceiling"),
        pytest.param(_given(kv_usage_ratio=None), 16, Reason.STEADY, id="cache use unknown"),
        pytest.param(_given(fragmentation_ratio=0.1), 16, Reason.STEADY, id="fragmented"),
        pytest.param(_given(fragmentation_ratio=0.09), 24, Reason.ROOM_TO_GROW, id="hardly fragmented"),
        pytest.param(_given(running=10, waiting=5), 16, Reason.LIMIT_NOT_BINDING, id="15 requests for 16 places"),
        pytest.param(_given(running=10, waiting=6), 24, Reason.ROOM_TO_GROW, id="16 requests for 16 places"),
        pytest.param(_given(limit=64), 64, Reason.AT_BOUND, id="at the engine's limit"),
        pytest.param(_given(limit=4, p99_ms=500.0), 4, Reason.AT_BOUND, id="at the law's least"),
        pytest.param(_given(p99_ms=88.1, growth_p99_ms=80.0), 16, Reason.GROWTH_HURT, id="P99 up by more than a tenth"),
        pytest.param(_given(p99_ms=87.9, growth_p99_ms=80.0), 24, Reason.ROOM_TO_GROW, id="P99 up by less than a tenth"),
        pytest.param(_given(p99_ms=150.0, growth_p99_ms=80.0), 14, Reason.LATENCY_OVER_SLO, id="growth went over the SLO"),
    ],
)
def test_propose_sample_gives_limit_and_reason(given: LawInput, limit: int, reason: Reason) -> None:
    proposal = propose(given, LAW)
    assert (proposal.limit, proposal.reason) == (limit, reason)


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        pytest.param(_given(p99_ms=50.0), 1.5, id="growth"),
        pytest.param(_given(p99_ms=88.1, growth_p99_ms=80.0), 1.3, id="growth hurt"),
        pytest.param(_given(p99_ms=150.0, growth_p99_ms=80.0), 1.3, id="growth hurt and over the SLO"),
        pytest.param(_given(p99_ms=150.0), 1.5, id="over the SLO without a growth before"),
        pytest.param(_given(p99_ms=88.1, growth_p99_ms=80.0, growth_factor=1.3), 1.3, id="at the least factor"),
    ],
)
def test_propose_growth_factor_is_lowered_only_when_growth_hurt(given: LawInput, factor: float) -> None:
    assert propose(given, LAW).growth_factor == pytest.approx(factor)


def test_lowered_from_the_top_goes_down_in_steps_to_the_least() -> None:
    path = [1.8]
    while len(path) < 5:
        path.append(lowered(path[-1], LAW))
    assert path == [1.8, 1.6, 1.4, 1.3, 1.3]


def test_propose_realtime_and_auto_samples_judges_the_realtime_lane() -> None:
    given = _given(p99_ms=50.0)
    both = replace(given, reading=replace(given.reading, auto=LatencyReading(count=100, p99_ms=900.0)))
    assert propose(both, LAW).reason is Reason.ROOM_TO_GROW


def test_propose_auto_samples_alone_judges_the_auto_lane() -> None:
    given = _given(auto=LatencyReading(count=100, p99_ms=900.0))
    assert propose(given, LAW).reason is Reason.LATENCY_OVER_SLO


def test_propose_explanation_carries_the_numbers() -> None:
    assert propose(_given(p99_ms=123.4), LAW).explanation == "P99 123.4 ms is over the SLO of 100.0 ms: 16 → 14 sequences"
