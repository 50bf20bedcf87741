"""When a telemetry reader gets its next snapshot."""

import pytest

from services.engine.policy.watch import clamp_interval, is_due


@pytest.mark.parametrize(
    ("asked_s", "interval_s"),
    [
        pytest.param(None, 0.1, id="default"),
        pytest.param(0.0, 0.02, id="too short"),
        pytest.param(0.05, 0.05, id="inside"),
        pytest.param(60.0, 10.0, id="too long"),
    ],
)
def test_clamp_interval_of_a_wish_stays_in_range(asked_s: float | None, interval_s: float) -> None:
    assert clamp_interval(asked_s) == interval_s


@pytest.mark.parametrize(
    ("changed", "since_last_s", "interval_s", "due"),
    [
        pytest.param(True, 0.1, 0.1, True, id="changed after the interval"),
        pytest.param(True, 0.05, 0.1, False, id="changed within the interval"),
        pytest.param(False, 0.9, 0.1, False, id="unchanged before the heartbeat"),
        pytest.param(False, 1.0, 0.1, True, id="heartbeat"),
        pytest.param(False, 1.0, 5.0, False, id="heartbeat not below the interval"),
    ],
)
def test_is_due_at_a_moment_follows_change_and_heartbeat(
    changed: bool, since_last_s: float, interval_s: float, due: bool
) -> None:
    assert is_due(changed=changed, since_last_s=since_last_s, interval_s=interval_s) is due
