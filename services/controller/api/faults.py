"""Bad requests to the controller."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from libs.rpc.fault import FieldViolation


class RequestFault(NamedTuple):
    """One fault of a request: stable reason, field path, what is wrong."""

    reason: str
    field: str
    words: str


class InvalidRequestError(Exception):
    """A request has faults, at least one; `reason` is that of the first, `violations` are all of them."""

    def __init__(self, faults: Sequence[RequestFault]) -> None:
        self.reason = faults[0].reason
        self.violations = tuple(FieldViolation(fault.field, fault.words) for fault in faults)
        super().__init__("; ".join(f"{fault.field}: {fault.words}" for fault in faults))


def refuse(faults: Iterable[RequestFault | None]) -> None:
    """Raise InvalidRequestError where any fault is given."""
    found = [fault for fault in faults if fault is not None]
    if found:
        raise InvalidRequestError(found)


def missing_reason(reason: str) -> RequestFault | None:
    """Return the fault of a changing call without a reason."""
    return None if reason.strip() else RequestFault("REASON_REQUIRED", "reason", "is required, for the journal")


def missing_engine(engine_id: str) -> RequestFault | None:
    """Return the fault of a call without an engine."""
    return None if engine_id else RequestFault("ENGINE_ID_REQUIRED", "engine_id", "is required")
