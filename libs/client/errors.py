"""What a call can raise.

TwinlaneError                   every failure of a call
├── InvalidRequestError         the request is at fault; `violations` name its fields
├── LimitedError                a limit of the tenant or the lane, or a full queue; `retry_after_s`
│   └── QuotaExhaustedError     a quota that will not come back
├── UnavailableError            no engine or router answered; `retry_after_s` where known
├── EngineLostError             an engine was lost in mid-answer; `partial_text` is what had come
├── DeadlineError               the deadline passed, or could not have been met
├── UnsupportedError            the server does not know the method or the thing named
└── InternalError               anything else; the server's log has more

Cancelling the task that awaits a call cancels the call and raises asyncio.CancelledError as ever.
"""

import grpc

from libs.rpc.fault import Fault, FieldViolation


class TwinlaneError(Exception):
    """A failed call.

    `fault` is what the server said, `retries` what this client sent again before giving up, `partial_text` the text that had
    come before the failure ("" mostly).
    """

    def __init__(self, fault: Fault, *, retries: int = 0, partial_text: str = "") -> None:
        super().__init__(f"{fault.reason}: {fault.message}")
        self.fault = fault
        self.retries = retries
        self.partial_text = partial_text

    @property
    def reason(self) -> str:
        """Machine-readable reason, UPPER_SNAKE_CASE; "UNKNOWN" where the server gave none."""
        return self.fault.reason

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which another try may succeed, or None where none is known."""
        return self.fault.retry_after_s


class InvalidRequestError(TwinlaneError):
    """The request is at fault; sending it again gives the same."""

    @property
    def violations(self) -> tuple[FieldViolation, ...]:
        """Each fault of the request, with its field."""
        return self.fault.violations


class LimitedError(TwinlaneError):
    """A limit of the tenant or the lane was reached, or a queue is full."""


class QuotaExhaustedError(LimitedError):
    """A quota that will not come back by waiting."""


class UnavailableError(TwinlaneError):
    """No engine or router answered."""


class EngineLostError(TwinlaneError):
    """An engine was lost in mid-answer."""


class DeadlineError(TwinlaneError):
    """The deadline passed, or could not have been met."""


class UnsupportedError(TwinlaneError):
    """The server does not know the method or the thing named."""


class InternalError(TwinlaneError):
    """Any other failure."""


def to_error(fault: Fault, *, retries: int, partial_text: str = "") -> TwinlaneError:
    """Return the exception for a fault: the one place where status codes become exceptions."""
    return _kind(fault)(fault, retries=retries, partial_text=partial_text)


_KINDS = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidRequestError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.CANCELLED: UnavailableError,
    grpc.StatusCode.ABORTED: EngineLostError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedError,
    grpc.StatusCode.NOT_FOUND: UnsupportedError,
}


def _kind(fault: Fault) -> type[TwinlaneError]:
    kind = _KINDS.get(fault.code, InternalError)
    return QuotaExhaustedError if kind is LimitedError and fault.never_retry else kind
