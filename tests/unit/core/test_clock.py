import pytest

from libs.core.clock import ManualClock, SystemClock


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(monotonic_s=5, wall_s=100)
    assert (clock.monotonic_s(), clock.wall_s()) == (5, 100)
    clock.advance(2.5)
    assert (clock.monotonic_s(), clock.wall_s()) == (7.5, 102.5)


def test_manual_clock_told_to_go_back_refuses() -> None:
    with pytest.raises(ValueError, match=r"^seconds: -1 is negative"):
        ManualClock().advance(-1)


def test_system_clock_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.monotonic_s() <= clock.monotonic_s()
    assert clock.wall_s() > 1_600_000_000
