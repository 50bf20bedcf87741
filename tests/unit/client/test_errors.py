import grpc
import pytest

from libs.client import errors
from libs.rpc.fault import Fault, FieldViolation


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidRequestError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.LimitedError),
        (grpc.StatusCode.UNAVAILABLE, errors.UnavailableError),
        (grpc.StatusCode.CANCELLED, errors.UnavailableError),
        (grpc.StatusCode.ABORTED, errors.EngineLostError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineError),
        (grpc.StatusCode.UNIMPLEMENTED, errors.UnsupportedError),
        (grpc.StatusCode.INTERNAL, errors.InternalError),
        (grpc.StatusCode.UNKNOWN, errors.InternalError),
    ],
)
def test_to_error_of_a_status_gives_its_exception(code: grpc.StatusCode, kind: type[errors.TwinlaneError]) -> None:
    error = errors.to_error(Fault(code=code, reason="R", message="m"), retries=2, partial_text="so far")
    assert type(error) is kind
    assert (error.reason, error.retries, error.partial_text, str(error)) == ("R", 2, "so far", "R: m")


def test_to_error_of_a_terminal_quota_is_told_apart() -> None:
    fault = Fault(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUOTA_TERMINAL", message="m", never_retry=True)
    assert type(errors.to_error(fault, retries=0)) is errors.QuotaExhaustedError


def test_to_error_keeps_violations_and_retry_time() -> None:
    violation = FieldViolation("prompt", "is empty")
    bad = Fault(code=grpc.StatusCode.INVALID_ARGUMENT, reason="R", message="m", violations=(violation,))
    error = errors.to_error(bad, retries=0)
    assert isinstance(error, errors.InvalidRequestError)
    assert error.violations == (violation,)
    limited = Fault(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="R", message="m", retry_after_s=1.5)
    assert errors.to_error(limited, retries=0).retry_after_s == 1.5
