"""Layer: who calls, and what the call's metadata asks for."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from libs.core.lanes import Lane
from libs.rpc.fault import FaultError, FieldViolation, invalid_argument
from services.router.domain import Identity

ValueT = TypeVar("ValueT")

TENANT_KEY = "x-tenant"
REQUEST_TYPE_KEY = "x-request-type"
PRIORITY_KEY = "x-priority"
LOW_LATENCY_KEY = "x-require-low-latency"
DEFAULT_TENANT = "default"

_MAX_TENANT_CHARS = 128
_REQUEST_TYPES = {"realtime": Lane.REALTIME, "batch": Lane.BATCH, "auto": Lane.AUTO}
_PRIORITIES = {"low": True, "normal": False}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_PLAIN = Identity(tenant=DEFAULT_TENANT, request_type=None, low_priority=False, low_latency=False)


def to_mapping(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Return a call's textual metadata; of a repeated key the last value."""
    return {key: value for key, value in metadata if isinstance(value, str)}


def read_identity(metadata: Mapping[str, str]) -> Identity:
    """Return the identity. Raises FaultError INVALID_ARGUMENT that names every bad key."""
    if not any(key.startswith("x-") for key in metadata):
        return _PLAIN
    faults: list[FieldViolation] = []
    tenant = metadata.get(TENANT_KEY, DEFAULT_TENANT)
    if not 0 < len(tenant) <= _MAX_TENANT_CHARS or not (tenant.isascii() and tenant.isprintable()):
        faults.append(_fault(TENANT_KEY, f"must be 1 to {_MAX_TENANT_CHARS} printable ASCII characters"))
    request_type = _read(metadata, REQUEST_TYPE_KEY, _REQUEST_TYPES, faults)
    low_priority = _read(metadata, PRIORITY_KEY, _PRIORITIES, faults)
    low_latency = _read(metadata, LOW_LATENCY_KEY, _FLAGS, faults)
    if faults:
        raise FaultError(invalid_argument("INVALID_METADATA", *faults))
    return Identity(tenant=tenant, request_type=request_type, low_priority=bool(low_priority), low_latency=bool(low_latency))


def _read(metadata: Mapping[str, str], key: str, values: Mapping[str, ValueT], faults: list[FieldViolation]) -> ValueT | None:
    given = metadata.get(key)
    if given is None:
        return None
    value = values.get(given.strip().lower())
    if value is None:
        faults.append(_fault(key, f"{given!r} is not one of {', '.join(values)}"))
    return value


def _fault(key: str, description: str) -> FieldViolation:
    return FieldViolation(f"metadata.{key}", description)
