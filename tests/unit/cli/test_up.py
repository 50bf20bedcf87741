"""Whether the mesh goes on serving after the job."""

import pytest

from cli.up import stays


@pytest.mark.parametrize(
    ("wish", "job", "at_terminal", "expected"),
    [
        pytest.param(None, False, False, True, id="no-job-always-serves"),
        pytest.param(False, False, True, True, id="no-job-nothing-to-exit-after"),
        pytest.param(None, True, True, True, id="job-at-a-terminal-stays"),
        pytest.param(None, True, False, False, id="job-in-a-script-ends"),
        pytest.param(True, True, False, True, id="stay-is-kept"),
        pytest.param(False, True, True, False, id="exit-is-kept"),
    ],
)
def test_stays_follows_the_wish_then_the_terminal(wish: bool | None, job: bool, at_terminal: bool, expected: bool) -> None:
    assert stays(wish, job=job, at_terminal=at_terminal) is expected
