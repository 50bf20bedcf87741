"""When to send a call again: decided here, done in client.py.

A call is sent again only before its first event, only after UNAVAILABLE, or RESOURCE_EXHAUSTED for which the server named a
time, never against the server's word, never past the deadline, and only while the budget lasts. The server's time comes
first (gRPC's retry design, gRFC A6); without one the wait grows exponentially.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

import grpc

from libs.limits.window import SlidingSum
from libs.rpc.fault import Fault


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The numbers of retrying.

    `max_attempts` counts the first one. Without a server's word the n-th wait is drawn evenly from the upper half of
    min(`backoff_max_s`, `backoff_first_s` · 2^(n-1)). A server's time is kept to, and stretched by up to `spread_ratio`, so
    that callers who were refused together do not come back together.
    """

    max_attempts: int = 4
    backoff_first_s: float = 0.05
    backoff_max_s: float = 2.0
    spread_ratio: float = 0.1


class StopReason(StrEnum):
    """Why a failed call is not sent again."""

    NOT_RETRYABLE = "not_retryable"
    SERVER_FORBIDS = "server_forbids"
    ATTEMPTS_SPENT = "attempts_spent"
    DEADLINE_TOO_NEAR = "deadline_too_near"
    BUDGET_SPENT = "budget_spent"


@dataclass(frozen=True, kw_only=True)
class RetryIn:
    """Send again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Give the failure to the caller."""

    reason: StopReason


class RetryBudget:
    """Bounds the extra load that retries make: over the last `window_s` at most `ratio` of the calls, or `minimum` if more.

    Owned by one client and shared by all its calls, so that a mesh in trouble is not met with more calls.
    """

    def __init__(self, *, ratio: float = 0.1, minimum: int = 3, window_s: float = 10.0) -> None:
        self._ratio = ratio
        self._minimum = minimum
        self._calls = SlidingSum(window_s=window_s)
        self._retries = SlidingSum(window_s=window_s)

    def count_call(self, *, now_s: float) -> None:
        """Count a call's first attempt."""
        self._calls.add(1, now_s=now_s)

    def has_room(self, *, now_s: float) -> bool:
        """Whether one more retry stays inside the budget."""
        allowed = max(self._minimum, self._ratio * self._calls.total(now_s=now_s))
        return self._retries.total(now_s=now_s) + 1 <= allowed

    def count_retry(self, *, now_s: float) -> None:
        """Count a retry that will be sent."""
        self._retries.add(1, now_s=now_s)


def decide(
    policy: RetryPolicy, fault: Fault, *, attempts: int, remaining_s: float, budget_has_room: bool, random: Random
) -> RetryIn | Stop:
    """Say what follows on a failure before the first event. `attempts`: sent so far, at least 1; `remaining_s`: to the
    deadline."""
    if fault.never_retry:
        return Stop(reason=StopReason.SERVER_FORBIDS)
    if not _is_retryable(fault):
        return Stop(reason=StopReason.NOT_RETRYABLE)
    if attempts >= policy.max_attempts:
        return Stop(reason=StopReason.ATTEMPTS_SPENT)
    delay_s = _delay_s(policy, fault.retry_after_s, attempts, random)
    if delay_s >= remaining_s:
        return Stop(reason=StopReason.DEADLINE_TOO_NEAR)
    if not budget_has_room:
        return Stop(reason=StopReason.BUDGET_SPENT)
    return RetryIn(delay_s=delay_s)


def _is_retryable(fault: Fault) -> bool:
    if fault.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return fault.retry_after_s is not None
    return fault.code is grpc.StatusCode.UNAVAILABLE


def _delay_s(policy: RetryPolicy, retry_after_s: float | None, attempts: int, random: Random) -> float:
    if retry_after_s is not None:
        return retry_after_s * (1 + policy.spread_ratio * random.random())
    ceiling_s = min(policy.backoff_max_s, policy.backoff_first_s * 2.0 ** (attempts - 1))
    return ceiling_s * (1 + random.random()) / 2
