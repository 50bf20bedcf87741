import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.limits.ewma import Ewma


def test_value_before_any_sample_is_absent() -> None:
    assert Ewma(half_life_s=1).value is None


def test_first_sample_is_the_average() -> None:
    assert Ewma(half_life_s=1).add(7, now_s=0) == 7


def test_sample_one_half_life_later_moves_half_way() -> None:
    average = Ewma(half_life_s=2)
    average.add(0, now_s=0)
    assert average.add(8, now_s=2) == pytest.approx(4)
    assert average.add(8, now_s=6) == pytest.approx(7)


def test_samples_of_one_instant_move_as_if_one_gap_apart() -> None:
    average = Ewma(half_life_s=1, min_gap_s=1)
    average.add(0, now_s=5)
    assert average.add(8, now_s=5) == pytest.approx(4)


def test_half_life_of_zero_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^half_life_s:"):
        Ewma(half_life_s=0)


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0, 10)), min_size=1, max_size=50))
def test_average_stays_between_the_extremes_of_its_samples(samples: list[tuple[float, float]]) -> None:
    average, now_s = Ewma(half_life_s=1), 0.0
    for sample, gap_s in samples:
        now_s += gap_s
        average.add(sample, now_s=now_s)
    values = [sample for sample, _ in samples]
    assert average.value is not None
    assert min(values) - 1e-9 <= average.value <= max(values) + 1e-9
