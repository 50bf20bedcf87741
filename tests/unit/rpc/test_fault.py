import math

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from libs.rpc.fault import (
    PUSHBACK_KEY,
    STATUS_DETAILS_KEY,
    CallStatus,
    Fault,
    FieldViolation,
    invalid_argument,
    read_fault,
    to_call_status,
)


def _as_error(status: CallStatus) -> grpc.aio.AioRpcError:
    return _error(status.code, status.details, *status.trailing_metadata)


def _error(code: grpc.StatusCode, details: str, *trailers: tuple[str, str | bytes]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details=details)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(code=grpc.StatusCode.INTERNAL, reason="INTERNAL", message="m"), id="plain"),
        pytest.param(
            Fault(code=grpc.StatusCode.ABORTED, reason="STALE_EPOCH", message="m", metadata={"epoch": "7"}), id="metadata"
        ),
        pytest.param(
            Fault(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUEUE_FULL", message="m", retry_after_s=1.25), id="retry"
        ),
        pytest.param(
            Fault(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUOTA_TERMINAL", message="m", never_retry=True), id="never"
        ),
        pytest.param(
            invalid_argument("BAD", FieldViolation("a", "is bad"), FieldViolation("b.c", "is worse")), id="violations"
        ),
    ],
)
def test_fault_through_a_status_and_back_is_the_same(fault: Fault) -> None:
    assert read_fault(_as_error(to_call_status(fault))) == fault


def test_retry_time_is_sent_as_pushback_too() -> None:
    fault = Fault(code=grpc.StatusCode.UNAVAILABLE, reason="NO_ENGINE", message="m", retry_after_s=0.5)
    assert (PUSHBACK_KEY, "500") in to_call_status(fault).trailing_metadata


@pytest.mark.parametrize(("retry_after_s", "pushback"), [(0.0104, "11"), (0.07, "70"), (0.0, "0"), (math.inf, "-1")], ids=str)
def test_retry_time_is_sent_in_whole_milliseconds_never_too_early(retry_after_s: float, pushback: str) -> None:
    fault = Fault(code=grpc.StatusCode.UNAVAILABLE, reason="NO_ENGINE", message="m", retry_after_s=retry_after_s)
    assert (PUSHBACK_KEY, pushback) in to_call_status(fault).trailing_metadata


def test_retry_time_below_zero_is_sent_as_zero_and_not_as_never() -> None:
    fault = Fault(code=grpc.StatusCode.UNAVAILABLE, reason="NO_ENGINE", message="m", retry_after_s=-3.0)
    assert (PUSHBACK_KEY, "0") in to_call_status(fault).trailing_metadata


def test_invalid_argument_message_names_every_field() -> None:
    fault = invalid_argument("BAD", FieldViolation("a", "is bad"), FieldViolation("b.c", "is worse"))
    assert fault.message == "a: is bad; b.c: is worse"


def test_read_fault_of_a_bare_status_has_reason_unknown() -> None:
    fault = read_fault(_error(grpc.StatusCode.UNAVAILABLE, "connection refused"))
    assert fault == Fault(code=grpc.StatusCode.UNAVAILABLE, reason="UNKNOWN", message="connection refused")


@pytest.mark.parametrize(
    ("pushback", "retry_after_s", "never"),
    [
        pytest.param("250", 0.25, False, id="number"),
        pytest.param("0", 0.0, False, id="at-once"),
        pytest.param("-1", None, True, id="negative"),
        pytest.param("soon", None, True, id="not-a-number"),
    ],
)
def test_read_fault_with_pushback_alone_obeys_it(pushback: str, retry_after_s: float | None, never: bool) -> None:
    fault = read_fault(_error(grpc.StatusCode.UNAVAILABLE, "m", (PUSHBACK_KEY, pushback)))
    assert (fault.retry_after_s, fault.never_retry) == (retry_after_s, never)


def test_read_fault_of_unreadable_details_has_reason_unknown() -> None:
    fault = read_fault(_error(grpc.StatusCode.INTERNAL, "m", (STATUS_DETAILS_KEY, b"\xff\xff")))
    assert (fault.code, fault.reason, fault.message) == (grpc.StatusCode.INTERNAL, "UNKNOWN", "m")


def test_read_fault_of_another_domain_has_reason_unknown() -> None:
    status = status_pb2.Status(code=14, message="m")
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason="THEIRS", domain="elsewhere"))
    status.details.append(packed)
    fault = read_fault(_error(grpc.StatusCode.UNAVAILABLE, "m", (STATUS_DETAILS_KEY, status.SerializeToString())))
    assert fault.reason == "UNKNOWN"
