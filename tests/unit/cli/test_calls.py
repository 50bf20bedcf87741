"""Failures of calls in words and exit codes."""

import grpc
import pytest

from cli.calls import failure, words
from cli.errors import ExitCode
from libs.rpc.fault import Fault, FieldViolation, invalid_argument, to_call_status


def _error(fault: Fault) -> grpc.aio.AioRpcError:
    status = to_call_status(fault)
    return grpc.aio.AioRpcError(status.code, grpc.aio.Metadata(), grpc.aio.Metadata(*status.trailing_metadata), status.details)


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, ExitCode.BAD_REQUEST),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ExitCode.REFUSED),
        (grpc.StatusCode.UNAVAILABLE, ExitCode.REFUSED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ExitCode.DEADLINE),
        (grpc.StatusCode.ABORTED, ExitCode.LOST),
        (grpc.StatusCode.INTERNAL, ExitCode.FAILED),
    ],
)
def test_failure_exit_code_tells_the_kind(code: grpc.StatusCode, exit_code: ExitCode) -> None:
    assert failure(_error(Fault(code=code, reason="ANY", message="m")), "host:1").exit_code is exit_code


def test_failure_nobody_listens_names_the_address() -> None:
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "connect failed")
    failed = failure(error, "127.0.0.1:50051")
    assert failed.exit_code is ExitCode.UNREACHABLE
    assert "127.0.0.1:50051" in str(failed)


def test_words_hold_reason_field_and_retry_time() -> None:
    fault = invalid_argument("EMPTY_PROMPT", FieldViolation("prompt", "must not be empty"))
    assert words(fault) == "INVALID_ARGUMENT EMPTY_PROMPT: prompt: must not be empty"
    later = Fault(code=grpc.StatusCode.UNAVAILABLE, reason="NO_ENGINE", message="none serves", retry_after_s=1.5)
    assert words(later) == "UNAVAILABLE NO_ENGINE: none serves (try again in 1.5 s)"
