from random import Random

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.client.retry import RetryBudget, RetryIn, RetryPolicy, Stop, StopReason, decide
from libs.rpc.fault import Fault

POLICY = RetryPolicy(max_attempts=3, backoff_first_s=0.1, backoff_max_s=0.3, spread_ratio=0.1)


class _FixedRandom(Random):
    """Always draws the same."""

    def __init__(self, drawn: float) -> None:
        super().__init__(0)
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


def _fault(code: grpc.StatusCode, *, retry_after_s: float | None = None, never_retry: bool = False) -> Fault:
    return Fault(code=code, reason="X", message="x", retry_after_s=retry_after_s, never_retry=never_retry)


def _decide(
    fault: Fault, *, attempts: int = 1, remaining_s: float = 60.0, room: bool = True, drawn: float = 0.0
) -> RetryIn | Stop:
    return decide(POLICY, fault, attempts=attempts, remaining_s=remaining_s, budget_has_room=room, random=_FixedRandom(drawn))


def _delay_s(verdict: RetryIn | Stop) -> float:
    assert isinstance(verdict, RetryIn)
    return verdict.delay_s


UNAVAILABLE = _fault(grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize(
    ("attempts", "drawn", "delay_s"),
    [
        pytest.param(1, 0.0, 0.05, id="first-least"),
        pytest.param(1, 0.5, 0.075, id="first-middle"),
        pytest.param(2, 0.0, 0.1, id="second-doubles"),
    ],
)
def test_decide_without_a_servers_time_backs_off_exponentially(attempts: int, drawn: float, delay_s: float) -> None:
    assert _delay_s(_decide(UNAVAILABLE, attempts=attempts, drawn=drawn)) == pytest.approx(delay_s)


def test_decide_after_many_attempts_waits_no_longer_than_the_maximum() -> None:
    policy = RetryPolicy(max_attempts=100, backoff_first_s=0.1, backoff_max_s=0.3)
    verdict = decide(policy, UNAVAILABLE, attempts=90, remaining_s=60, budget_has_room=True, random=_FixedRandom(0.999))
    assert _delay_s(verdict) == pytest.approx(0.3, rel=1e-3)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_decide_with_a_servers_time_keeps_to_it(code: grpc.StatusCode) -> None:
    assert _decide(_fault(code, retry_after_s=5)) == RetryIn(delay_s=5)
    assert _delay_s(_decide(_fault(code, retry_after_s=5), drawn=0.5)) == pytest.approx(5.25)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(_fault(grpc.StatusCode.RESOURCE_EXHAUSTED), StopReason.NOT_RETRYABLE, id="limit-without-time"),
        pytest.param(_fault(grpc.StatusCode.INTERNAL, retry_after_s=1), StopReason.NOT_RETRYABLE, id="internal"),
        pytest.param(_fault(grpc.StatusCode.INVALID_ARGUMENT), StopReason.NOT_RETRYABLE, id="bad-request"),
        pytest.param(_fault(grpc.StatusCode.DEADLINE_EXCEEDED), StopReason.NOT_RETRYABLE, id="deadline"),
        pytest.param(_fault(grpc.StatusCode.ABORTED), StopReason.NOT_RETRYABLE, id="aborted"),
        pytest.param(_fault(grpc.StatusCode.CANCELLED), StopReason.NOT_RETRYABLE, id="cancelled"),
        pytest.param(_fault(grpc.StatusCode.UNAVAILABLE, never_retry=True), StopReason.SERVER_FORBIDS, id="forbidden"),
    ],
)
def test_decide_on_a_fault_that_must_not_be_retried_stops(fault: Fault, reason: StopReason) -> None:
    assert _decide(fault) == Stop(reason=reason)


def test_decide_after_the_last_attempt_stops() -> None:
    assert _decide(UNAVAILABLE, attempts=3) == Stop(reason=StopReason.ATTEMPTS_SPENT)


@pytest.mark.parametrize("remaining_s", [0.0, 4.9, 5.0])
def test_decide_with_a_wait_past_the_deadline_stops(remaining_s: float) -> None:
    fault = _fault(grpc.StatusCode.UNAVAILABLE, retry_after_s=5)
    assert _decide(fault, remaining_s=remaining_s) == Stop(reason=StopReason.DEADLINE_TOO_NEAR)


def test_decide_without_budget_stops() -> None:
    assert _decide(UNAVAILABLE, room=False) == Stop(reason=StopReason.BUDGET_SPENT)


def test_budget_of_an_idle_client_allows_the_minimum() -> None:
    budget = RetryBudget(ratio=0.1, minimum=2, window_s=10)
    budget.count_call(now_s=0)
    for _ in range(2):
        assert budget.has_room(now_s=0)
        budget.count_retry(now_s=0)
    assert not budget.has_room(now_s=0)


def test_budget_of_a_busy_client_allows_its_ratio() -> None:
    budget = RetryBudget(ratio=0.1, minimum=2, window_s=10)
    for _ in range(50):
        budget.count_call(now_s=0)
    for _ in range(5):
        assert budget.has_room(now_s=0)
        budget.count_retry(now_s=0)
    assert not budget.has_room(now_s=0)


def test_budget_after_its_window_is_whole_again() -> None:
    budget = RetryBudget(ratio=0.1, minimum=1, window_s=10)
    budget.count_retry(now_s=0)
    assert not budget.has_room(now_s=9)
    assert budget.has_room(now_s=10.5)


@given(
    attempts=st.integers(1, 10),
    remaining_s=st.floats(0, 100),
    retry_after_s=st.none() | st.floats(0, 100),
    code=st.sampled_from(list(grpc.StatusCode)),
    never=st.booleans(),
    seed=st.integers(),
)
def test_any_retry_ends_its_wait_before_the_deadline_and_after_the_servers_time(
    attempts: int, remaining_s: float, retry_after_s: float | None, code: grpc.StatusCode, never: bool, seed: int
) -> None:
    fault = _fault(code, retry_after_s=retry_after_s, never_retry=never)
    verdict = decide(POLICY, fault, attempts=attempts, remaining_s=remaining_s, budget_has_room=True, random=Random(seed))
    if isinstance(verdict, RetryIn):
        assert (retry_after_s or 0) <= verdict.delay_s < remaining_s
        assert code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert not never


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=200))
def test_retries_in_a_window_never_exceed_the_budget(steps: list[tuple[bool, float]]) -> None:
    budget = RetryBudget(ratio=0.1, minimum=3, window_s=1000)
    now_s, calls, retries = 0.0, 0, 0
    for is_call, gap_s in steps:
        now_s += gap_s
        if is_call:
            budget.count_call(now_s=now_s)
            calls += 1
        elif budget.has_room(now_s=now_s):
            budget.count_retry(now_s=now_s)
            retries += 1
    assert retries <= max(3, 0.1 * calls)
