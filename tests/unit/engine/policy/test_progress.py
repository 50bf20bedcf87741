"""Health from forward progress."""

import pytest

from services.engine.policy.progress import Progress, ProgressReading, judge

BEFORE = Progress(steps_total=7, standing_since_s=100.0)


@pytest.mark.parametrize(
    ("now_s", "steps_total", "in_flight", "expected"),
    [
        pytest.param(200.0, 7, 0, Progress(steps_total=7, standing_since_s=200.0), id="idle"),
        pytest.param(200.0, 8, 3, Progress(steps_total=8, standing_since_s=200.0), id="busy and stepping"),
        pytest.param(129.9, 7, 3, Progress(steps_total=7, standing_since_s=100.0), id="one long step"),
        pytest.param(130.0, 7, 3, Progress(steps_total=7, standing_since_s=100.0, stalled=True), id="stalled"),
    ],
)
def test_judge_of_a_reading_tells_stalled_from_busy(now_s: float, steps_total: int, in_flight: int, expected: Progress) -> None:
    reading = ProgressReading(now_s=now_s, steps_total=steps_total, in_flight=in_flight)
    assert judge(BEFORE, reading, stall_s=30.0) == expected


def test_judge_of_a_step_after_a_stall_recovers() -> None:
    stalled = Progress(steps_total=7, standing_since_s=100.0, stalled=True)
    assert not judge(stalled, ProgressReading(now_s=140.0, steps_total=8, in_flight=3), stall_s=30.0).stalled
