"""A refusal or failure as callers see it, and its travel through gRPC in both directions.

A service states each cause once as a `Fault`; `FaultError` carries it up to the boundary, which sends it as a
google.rpc.Status; `read_fault` gives it back on the caller's side.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

ERROR_DOMAIN = "twinlane"
PUSHBACK_KEY = "grpc-retry-pushback-ms"
STATUS_DETAILS_KEY = "grpc-status-details-bin"
# gRPC's rule: a negative pushback tells the caller not to try again.
PUSHBACK_NEVER_MS = -1


class FieldViolation(NamedTuple):
    """One fault of a request: where and what."""

    field: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What a caller is told.

    `reason` is UPPER_SNAKE_CASE and stable; `message` is for people; `metadata` holds the numbers behind the message;
    `retry_after_s` is an honest time after which another try may succeed, or None where none is known; infinite means never,
    as `never_retry` does.
    """

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None
    never_retry: bool = False
    violations: tuple[FieldViolation, ...] = ()


class FaultError(Exception):
    """Ends the current call with its fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code.name} {fault.reason}: {fault.message}")
        self.fault = fault


@dataclass(frozen=True)
class CallStatus(grpc.Status):
    """What grpc's abort_with_status takes. Trailers live here: abort drops any set before."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def invalid_argument(reason: str, *violations: FieldViolation, metadata: Mapping[str, str] | None = None) -> Fault:
    """Return the fault of a bad request; its message lists every violation with its field."""
    return Fault(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason=reason,
        message="; ".join(f"{v.field}: {v.description}" for v in violations),
        metadata=metadata or {},
        violations=violations,
    )


def to_call_status(fault: Fault) -> CallStatus:
    """Return the status to abort a call with: ErrorInfo always, BadRequest and RetryInfo where they apply."""
    status = status_pb2.Status(code=fault.code.value[0], message=fault.message)
    _pack(
        status,
        error_details_pb2.ErrorInfo(reason=fault.reason, domain=ERROR_DOMAIN, metadata=dict(fault.metadata)),
    )
    if fault.violations:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.description) for v in fault.violations
        ]
        _pack(status, error_details_pb2.BadRequest(field_violations=violations))
    trailers: list[tuple[str, str | bytes]] = []
    if fault.never_retry or fault.retry_after_s == math.inf:
        trailers.append((PUSHBACK_KEY, str(PUSHBACK_NEVER_MS)))
    elif fault.retry_after_s is not None:
        delay = duration_pb2.Duration(nanos=0)
        delay.FromMilliseconds(_whole_ms(fault.retry_after_s))
        _pack(status, error_details_pb2.RetryInfo(retry_delay=delay))
        trailers.append((PUSHBACK_KEY, str(delay.ToMilliseconds())))
    trailers.append((STATUS_DETAILS_KEY, status.SerializeToString()))
    return CallStatus(fault.code, fault.message, tuple(trailers))


def read_fault(error: grpc.aio.AioRpcError) -> Fault:
    """Return the fault that a failed call brought. A status without our details gets the reason "UNKNOWN"."""
    trailers = dict(error.trailing_metadata() or ())
    details = _read_details(trailers.get(STATUS_DETAILS_KEY))
    pushback_ms = _read_pushback_ms(trailers.get(PUSHBACK_KEY))
    retry_after_s = details.retry_after_s
    if retry_after_s is None and pushback_ms is not None and pushback_ms >= 0:
        retry_after_s = pushback_ms / 1000
    never_retry = pushback_ms is not None and pushback_ms < 0
    return Fault(
        code=error.code(),
        reason=details.reason,
        message=error.details() or "",
        metadata=details.metadata,
        retry_after_s=None if never_retry else retry_after_s,
        never_retry=never_retry,
        violations=details.violations,
    )


_DETAIL_TYPES = (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest)


def _pack(status: status_pb2.Status, detail: Message) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def _whole_ms(seconds: float) -> int:
    """Round up, so that nobody comes back too early; microseconds are the rounding of floating point."""
    return max(0, math.ceil(round(seconds * 1000, 3)))


def _unpack(packed: any_pb2.Any) -> Message | None:
    for kind in _DETAIL_TYPES:
        if packed.Is(kind.DESCRIPTOR):
            detail: Message = kind()
            packed.Unpack(detail)
            return detail
    return None


@dataclass(frozen=True, kw_only=True)
class _Details:
    reason: str = "UNKNOWN"
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None
    violations: tuple[FieldViolation, ...] = ()


def _read_details(value: str | bytes | None) -> _Details:
    """Details may come from any proxy on the way: what cannot be read, or is of another domain, is left out."""
    found = _Details()
    try:
        packed = status_pb2.Status.FromString(value).details if isinstance(value, bytes) else ()
        for detail in map(_unpack, packed):
            if isinstance(detail, error_details_pb2.ErrorInfo) and detail.domain == ERROR_DOMAIN:
                found = replace(found, reason=detail.reason, metadata=dict(detail.metadata))
            elif isinstance(detail, error_details_pb2.RetryInfo):
                found = replace(found, retry_after_s=max(0, detail.retry_delay.ToMilliseconds()) / 1000)
            elif isinstance(detail, error_details_pb2.BadRequest):
                violations = tuple(FieldViolation(v.field, v.description) for v in detail.field_violations)
                found = replace(found, violations=found.violations + violations)
    except DecodeError:
        return found
    return found


def _read_pushback_ms(value: str | bytes | None) -> int | None:
    """Return the pushback; by gRPC's rule one that is not a number means never."""
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        return PUSHBACK_NEVER_MS
