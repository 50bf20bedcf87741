"""Delays between restarts."""

import pytest

from cli.mesh.backoff import restart_delay_s


@pytest.mark.parametrize(("deaths", "delay_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (5000, 10.0)])
def test_restart_delay_s_doubles_up_to_the_maximum(deaths: int, delay_s: float) -> None:
    assert restart_delay_s(deaths) == delay_s


def test_restart_delay_s_without_a_death_raises() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        restart_delay_s(0)
