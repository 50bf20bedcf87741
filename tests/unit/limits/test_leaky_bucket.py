import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.limits.leaky_bucket import LeakyBucket
from libs.limits.verdict import Grant, Refusal

RATES = st.floats(min_value=0.1, max_value=1000)
GAPS_S = st.floats(min_value=0, max_value=100)
COSTS = st.floats(min_value=0, max_value=200)


def _bucket() -> LeakyBucket:
    return LeakyBucket(rate_per_s=20, capacity=10, now_s=100)


def test_add_to_empty_bucket_starts_at_once() -> None:
    assert _bucket().try_add(1, now_s=100) == Grant(start_in_s=0)


def test_add_behind_others_starts_after_they_have_left() -> None:
    bucket = _bucket()
    bucket.try_add(1, now_s=100)
    bucket.try_add(4, now_s=100)
    assert bucket.try_add(1, now_s=100) == Grant(start_in_s=0.25)


def test_add_over_capacity_refuses_with_the_drain_time_and_takes_nothing() -> None:
    bucket = _bucket()
    bucket.try_add(9, now_s=100)
    assert bucket.try_add(2, now_s=100) == Refusal(retry_after_s=0.05)
    assert bucket.level(now_s=100) == 9


def test_add_of_more_than_the_capacity_is_refused_for_ever() -> None:
    assert _bucket().try_add(10.5, now_s=100) == Refusal(retry_after_s=math.inf)


def test_level_drains_at_the_rate_down_to_zero() -> None:
    bucket = _bucket()
    bucket.try_add(10, now_s=100)
    assert bucket.level(now_s=100.25) == 5
    assert bucket.level(now_s=200) == 0


def test_time_that_goes_back_changes_nothing() -> None:
    bucket = _bucket()
    bucket.try_add(10, now_s=100)
    assert bucket.level(now_s=50) == 10


@pytest.mark.parametrize(
    ("rate_per_s", "capacity", "name"),
    [
        pytest.param(-1, 1, "rate_per_s", id="negative-rate"),
        pytest.param(math.nan, 1, "rate_per_s", id="rate-not-a-number"),
        pytest.param(1, 0, "capacity", id="no-capacity"),
        pytest.param(1, math.inf, "capacity", id="infinite-capacity"),
    ],
)
def test_bucket_with_impossible_setting_names_it(rate_per_s: float, capacity: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}:"):
        LeakyBucket(rate_per_s=rate_per_s, capacity=capacity, now_s=0)


@pytest.mark.parametrize("cost", [-0.1, math.nan])
def test_add_of_impossible_cost_raises(cost: float) -> None:
    with pytest.raises(ValueError, match=r"^cost:"):
        _bucket().try_add(cost, now_s=100)


@given(rate_per_s=RATES, capacity=RATES, calls=st.lists(st.tuples(GAPS_S, COSTS), max_size=60))
def test_starts_are_spaced_by_the_rate_and_level_stays_in_bounds(
    rate_per_s: float, capacity: float, calls: list[tuple[float, float]]
) -> None:
    bucket = LeakyBucket(rate_per_s=rate_per_s, capacity=capacity, now_s=0)
    now_s, free_at_s = 0.0, 0.0
    for gap_s, cost in calls:
        now_s += gap_s
        verdict = bucket.try_add(cost, now_s=now_s)
        if isinstance(verdict, Grant):
            start_s = now_s + verdict.start_in_s
            assert start_s == pytest.approx(max(now_s, free_at_s), abs=1e-5)
            free_at_s = start_s + cost / rate_per_s
        assert 0 <= bucket.level(now_s=now_s) <= capacity + rate_per_s * 1e-5


@given(rate_per_s=RATES, capacity=RATES, calls=st.lists(st.tuples(GAPS_S, COSTS), max_size=40))
def test_refusal_is_truthful_and_takes_nothing(rate_per_s: float, capacity: float, calls: list[tuple[float, float]]) -> None:
    bucket = LeakyBucket(rate_per_s=rate_per_s, capacity=capacity, now_s=0)
    now_s = 0.0
    for gap_s, cost in calls:
        now_s += gap_s
        before = bucket.level(now_s=now_s)
        verdict = bucket.try_add(cost, now_s=now_s)
        if isinstance(verdict, Grant):
            continue
        assert bucket.level(now_s=now_s) == before
        if verdict.retry_after_s < math.inf:
            now_s += verdict.retry_after_s
            assert isinstance(bucket.try_add(cost, now_s=now_s), Grant)
