from typing import Any, cast

import grpc
import pytest

from libs.rpc.deadlines import remaining_s


class _Context:
    """The one method that is asked."""

    def __init__(self, left_s: float | None) -> None:
        self._left_s = left_s

    def time_remaining(self) -> float | None:
        return self._left_s


@pytest.mark.parametrize(("left_s", "expected"), [(None, None), (1.5, 1.5), (-0.1, 0.0)])
def test_remaining_s_is_at_least_zero_and_absent_without_deadline(left_s: float | None, expected: float | None) -> None:
    assert remaining_s(cast("grpc.aio.ServicerContext[Any, Any]", _Context(left_s))) == expected
