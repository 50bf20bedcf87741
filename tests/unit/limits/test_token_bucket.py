import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.limits.token_bucket import TokenBucket
from libs.limits.verdict import Grant, Refusal

RATES = st.floats(min_value=0.1, max_value=1000)
GAPS_S = st.floats(min_value=0, max_value=100)
COSTS = st.floats(min_value=0, max_value=200)


def _bucket() -> TokenBucket:
    return TokenBucket(rate_per_s=100, burst=500, now_s=10)


def test_take_from_full_bucket_grants_the_burst() -> None:
    bucket = _bucket()
    assert bucket.try_take(500, now_s=10) == Grant()
    assert bucket.level(now_s=10) == 0


def test_take_over_level_refuses_with_the_refill_time_and_takes_nothing() -> None:
    bucket = _bucket()
    bucket.try_take(480, now_s=10)
    assert bucket.try_take(45, now_s=10) == Refusal(retry_after_s=0.25)
    assert bucket.level(now_s=10) == 20


def test_take_after_the_told_wait_is_granted() -> None:
    bucket = _bucket()
    bucket.try_take(500, now_s=10)
    assert bucket.try_take(1, now_s=10) == Refusal(retry_after_s=0.01)
    assert bucket.try_take(1, now_s=10.01) == Grant()


def test_take_of_a_fraction_leaves_the_rest() -> None:
    bucket = _bucket()
    bucket.try_take(0.25, now_s=10)
    assert bucket.level(now_s=10) == 499.75


def test_take_of_more_than_the_burst_is_refused_for_ever() -> None:
    assert _bucket().try_take(501, now_s=10) == Refusal(retry_after_s=math.inf)


def test_level_after_long_idling_stays_at_the_burst() -> None:
    bucket = _bucket()
    bucket.try_take(500, now_s=10)
    assert bucket.level(now_s=1_000_000) == 500


def test_settle_above_the_level_makes_a_debt_that_is_refilled_first() -> None:
    bucket = _bucket()
    bucket.try_take(500, now_s=10)
    bucket.settle(200)
    assert bucket.level(now_s=10) == -200
    assert bucket.try_take(10, now_s=11) == Refusal(retry_after_s=1.1)


def test_settle_below_zero_gives_back_up_to_the_burst() -> None:
    bucket = _bucket()
    bucket.try_take(100, now_s=10)
    bucket.settle(-60)
    assert bucket.level(now_s=10) == 460
    bucket.settle(-60)
    assert bucket.level(now_s=10) == 500


def test_time_that_goes_back_changes_nothing() -> None:
    bucket = _bucket()
    bucket.try_take(500, now_s=10)
    assert bucket.level(now_s=5) == 0
    assert bucket.level(now_s=10) == 0


@pytest.mark.parametrize(
    ("rate_per_s", "burst", "name"),
    [
        pytest.param(0, 1, "rate_per_s", id="no-rate"),
        pytest.param(math.inf, 1, "rate_per_s", id="infinite-rate"),
        pytest.param(1, 0, "burst", id="no-burst"),
        pytest.param(1, math.nan, "burst", id="burst-not-a-number"),
    ],
)
def test_bucket_with_impossible_setting_names_it(rate_per_s: float, burst: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}:"):
        TokenBucket(rate_per_s=rate_per_s, burst=burst, now_s=0)


@pytest.mark.parametrize("cost", [-1, math.nan])
def test_take_of_impossible_cost_raises(cost: float) -> None:
    with pytest.raises(ValueError, match=r"^cost:"):
        _bucket().try_take(cost, now_s=10)


@given(rate_per_s=RATES, burst=RATES, calls=st.lists(st.tuples(GAPS_S, COSTS), max_size=60))
def test_admitted_cost_in_any_interval_stays_under_burst_plus_rate(
    rate_per_s: float, burst: float, calls: list[tuple[float, float]]
) -> None:
    bucket = TokenBucket(rate_per_s=rate_per_s, burst=burst, now_s=0)
    now_s, admitted = 0.0, list[tuple[float, float]]()
    for gap_s, cost in calls:
        now_s += gap_s
        if isinstance(bucket.try_take(cost, now_s=now_s), Grant):
            admitted.append((now_s, cost))
    for first, (start_s, _) in enumerate(admitted):
        total = 0.0
        for end_s, cost in admitted[first:]:
            total += cost
            assert total <= burst + rate_per_s * (end_s - start_s) + rate_per_s * 1e-5


@given(rate_per_s=RATES, burst=RATES, calls=st.lists(st.tuples(GAPS_S, COSTS), max_size=40))
def test_refusal_is_truthful_and_takes_nothing(rate_per_s: float, burst: float, calls: list[tuple[float, float]]) -> None:
    bucket = TokenBucket(rate_per_s=rate_per_s, burst=burst, now_s=0)
    now_s = 0.0
    for gap_s, cost in calls:
        now_s += gap_s
        before = bucket.level(now_s=now_s)
        verdict = bucket.try_take(cost, now_s=now_s)
        if isinstance(verdict, Grant):
            continue
        assert bucket.level(now_s=now_s) == before
        if verdict.retry_after_s < math.inf:
            now_s += verdict.retry_after_s
            assert bucket.try_take(cost, now_s=now_s) == Grant()


@given(rate_per_s=RATES, burst=RATES, deltas=st.lists(st.floats(min_value=-500, max_value=500), max_size=40))
def test_level_after_settlements_never_exceeds_the_burst(rate_per_s: float, burst: float, deltas: list[float]) -> None:
    bucket = TokenBucket(rate_per_s=rate_per_s, burst=burst, now_s=0)
    for second, delta in enumerate(deltas):
        bucket.settle(delta)
        assert bucket.level(now_s=second) <= burst
