import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.arrivals import Arrivals, arrival_probability, arrived, expected_gap_s, longest_quiet_s


def _after(*times_s: float) -> Arrivals:
    seen = Arrivals()
    for now_s in times_s:
        seen = arrived(seen, now_s=now_s)
    return seen


def test_expected_gap_before_two_arrivals_is_infinite() -> None:
    assert expected_gap_s(Arrivals(), now_s=5.0) == math.inf
    assert expected_gap_s(_after(4.0), now_s=5.0) == math.inf


def test_expected_gap_of_regular_arrivals_is_their_gap() -> None:
    assert expected_gap_s(_after(0.0, 0.5, 1.0, 1.5), now_s=1.6) == pytest.approx(0.5)


def test_expected_gap_follows_the_newest_gap_by_its_weight() -> None:
    assert expected_gap_s(_after(0.0, 1.0, 1.5), now_s=1.5) == pytest.approx(1.0 - 0.15 * 0.5)


def test_expected_gap_in_silence_grows_with_the_silence() -> None:
    assert expected_gap_s(_after(0.0, 0.5), now_s=10.5) == pytest.approx(10.0)


def test_arrivals_of_one_instant_count_as_a_millisecond_apart() -> None:
    assert _after(1.0, 1.0).mean_gap_s == pytest.approx(0.001)


def test_arrival_probability_within_one_gap_is_that_of_poisson() -> None:
    assert arrival_probability(_after(0.0, 0.5), now_s=0.5, within_s=0.5) == pytest.approx(1 - math.exp(-1))


def test_arrival_probability_without_arrivals_is_zero() -> None:
    assert arrival_probability(Arrivals(), now_s=0.0, within_s=60.0) == 0


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1])
def test_longest_quiet_with_a_risk_out_of_range_is_refused(risk: float) -> None:
    with pytest.raises(ValueError, match="risk"):
        longest_quiet_s(Arrivals(), now_s=0.0, risk=risk)


@given(st.lists(st.floats(min_value=0, max_value=100), min_size=2, max_size=30), st.floats(min_value=0.01, max_value=0.99))
def test_arrival_within_the_longest_quiet_is_as_probable_as_the_risk(gaps_s: list[float], risk: float) -> None:
    now_s, seen = 0.0, Arrivals()
    for gap_s in gaps_s:
        now_s += gap_s
        seen = arrived(seen, now_s=now_s)

    quiet_s = longest_quiet_s(seen, now_s=now_s, risk=risk)

    assert arrival_probability(seen, now_s=now_s, within_s=quiet_s) == pytest.approx(risk)
