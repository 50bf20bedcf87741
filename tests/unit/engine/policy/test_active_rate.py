"""Rate of work while there is work."""

import pytest

from services.engine.policy.active_rate import ActiveRate, advance, count, per_second


def test_per_second_of_no_work_is_unknown() -> None:
    assert per_second(advance(ActiveRate(), 5.0)) is None


def test_per_second_of_work_in_no_time_is_unknown() -> None:
    assert per_second(count(ActiveRate(), 10.0)) is None


def test_per_second_of_one_piece_of_work_is_its_speed() -> None:
    assert per_second(count(advance(ActiveRate(), 2.0), 500.0)) == pytest.approx(250.0)


def test_per_second_after_a_half_life_weighs_the_old_half() -> None:
    rate = count(advance(ActiveRate(), 10.0), 1000.0)
    rate = count(advance(rate, 10.0), 3000.0)
    assert per_second(rate) == pytest.approx((500.0 + 3000.0) / (5.0 + 10.0))
