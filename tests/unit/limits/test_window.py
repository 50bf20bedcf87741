import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.limits.window import QuantileSummary, SlidingQuantiles, SlidingSum, quantile


def test_summary_of_a_hundred_samples_is_by_nearest_rank() -> None:
    window = SlidingQuantiles(window_s=10)
    for value in range(100, 0, -1):
        window.add(value, now_s=0)
    assert window.summary(now_s=0) == QuantileSummary(count=100, p50=50, p95=95, p99=99)


def test_summary_without_samples_is_absent() -> None:
    assert SlidingQuantiles(window_s=10).summary(now_s=0) is None


def test_summary_leaves_out_samples_older_than_the_window() -> None:
    window = SlidingQuantiles(window_s=10)
    window.add(1, now_s=0)
    window.add(2, now_s=5)
    assert window.summary(now_s=10) == QuantileSummary(count=2, p50=1, p95=2, p99=2)
    assert window.summary(now_s=10.1) == QuantileSummary(count=1, p50=2, p95=2, p99=2)


def test_summary_keeps_only_the_newest_of_too_many_samples() -> None:
    window = SlidingQuantiles(window_s=10, max_samples=2)
    for value in (1, 2, 3):
        window.add(value, now_s=0)
    assert window.summary(now_s=0) == QuantileSummary(count=2, p50=2, p95=3, p99=3)


def test_summary_after_clear_is_absent() -> None:
    window = SlidingQuantiles(window_s=10)
    window.add(1, now_s=0)
    window.clear()
    assert window.summary(now_s=0) is None


def test_sum_leaves_out_what_is_older_than_the_window() -> None:
    window = SlidingSum(window_s=10, buckets=10)
    window.add(3, now_s=0.5)
    window.add(4, now_s=5.5)
    assert window.total(now_s=9.9) == 7
    assert window.total(now_s=10.5) == 4
    assert window.per_second(now_s=10.5) == 0.4


def test_sum_that_nobody_reads_holds_no_more_than_its_slices() -> None:
    window = SlidingSum(window_s=10, buckets=10)
    for second in range(1000):
        window.add(1, now_s=second)
    assert len(window._slices) <= 10


@pytest.mark.parametrize(
    ("window_s", "count", "name"),
    [pytest.param(0, 1, "window_s", id="no-window"), pytest.param(1, 0, "buckets", id="no-buckets")],
)
def test_sum_with_impossible_setting_names_it(window_s: float, count: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}:"):
        SlidingSum(window_s=window_s, buckets=count)


@pytest.mark.parametrize(
    ("window_s", "count", "name"),
    [pytest.param(0, 1, "window_s", id="no-window"), pytest.param(1, 0, "max_samples", id="no-samples")],
)
def test_quantiles_with_impossible_setting_name_it(window_s: float, count: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}:"):
        SlidingQuantiles(window_s=window_s, max_samples=count)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=50), st.floats(min_value=0.01, max_value=1))
def test_quantile_has_its_share_of_samples_at_or_below(values: list[float], p: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, p)
    assert sum(value <= found for value in ordered) >= math.ceil(p * len(ordered))
    assert sum(value < found for value in ordered) < p * len(ordered)
