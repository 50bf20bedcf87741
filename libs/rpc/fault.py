"""A refusal or failure as callers see it, and its travel through gRPC in both directions.

A service states each cause once as a `Fault`; `FaultError` carries it up to the boundary, which sends it as a
google.rpc.Status; `read_fault` gives it back on the caller's side.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
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
    `retry_after_s` is an honest time after which another try may succeed, or None where none is known.
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
    if fault.never_retry:
        trailers.append((PUSHBACK_KEY, str(PUSHBACK_NEVER_MS)))
    elif fault.retry_after_s is not None:
        delay = duration_pb2.Duration(nanos=0)
        delay.FromMilliseconds(max(0, round(fault.retry_after_s * 1000)))
        _pack(status, error_details_pb2.RetryInfo(retry_delay=delay))
        trailers.append((PUSHBACK_KEY, str(delay.ToMilliseconds())))
    trailers.append((STATUS_DETAILS_KEY, status.SerializeToString()))
    return CallStatus(fault.code, fault.message, tuple(trailers))


def read_fault(error: grpc.aio.AioRpcError) -> Fault:
    """Return the fault that a failed call brought. A status without our details gets the reason "UNKNOWN"."""
    reason, metadata, retry_after_s, never_retry, violations = "UNKNOWN", dict[str, str](), None, False, list[FieldViolation]()
    for key, value in error.trailing_metadata() or ():
        if key == PUSHBACK_KEY:
            never_retry = _is_never(value)
        elif key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                info = _unpack(detail)
                if isinstance(info, error_details_pb2.ErrorInfo):
                    reason, metadata = info.reason, dict(info.metadata)
                elif isinstance(info, error_details_pb2.RetryInfo):
                    retry_after_s = info.retry_delay.ToMilliseconds() / 1000
                elif isinstance(info, error_details_pb2.BadRequest):
                    violations += [FieldViolation(v.field, v.description) for v in info.field_violations]
    return Fault(
        code=error.code(),
        reason=reason,
        message=error.details() or "",
        metadata=metadata,
        retry_after_s=retry_after_s,
        never_retry=never_retry,
        violations=tuple(violations),
    )


_DETAIL_TYPES = (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest)


def _pack(status: status_pb2.Status, detail: Message) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def _unpack(packed: any_pb2.Any) -> Message | None:
    for kind in _DETAIL_TYPES:
        if packed.Is(kind.DESCRIPTOR):
            detail: Message = kind()
            packed.Unpack(detail)
            return detail
    return None


def _is_never(pushback: str | bytes) -> bool:
    text = pushback.decode("ascii", "replace") if isinstance(pushback, bytes) else pushback
    return text.strip().startswith("-")
