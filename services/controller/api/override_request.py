"""Checks of SetOverride."""

from twinlane.controller.v1 import admin_pb2

from services.controller.api.faults import RequestFault, missing_engine, missing_reason, refuse
from services.controller.domain import Limits, Override, Tuning
from services.controller.wire import read_tuning, seconds

MIN_TTL_S = 1.0
MAX_TTL_S = 7 * 86_400.0


def check_override(request: admin_pb2.SetOverrideRequest) -> None:
    """Raise InvalidRequestError with every fault of the request's form."""
    tuning = read_tuning(request.tuning)
    refuse(
        [
            missing_engine(request.engine_id),
            RequestFault("INVALID_TUNING", "tuning", "needs at least one value") if tuning.is_empty else None,
            _zero("tuning.max_active_sequences", tuning.max_active_sequences),
            _zero("tuning.max_batched_tokens", tuning.max_batched_tokens),
            _ttl_fault(request),
            missing_reason(request.reason),
        ]
    )


def build_override(request: admin_pb2.SetOverrideRequest, *, limits: Limits, now_s: float, decision_id: str) -> Override:
    """Return the override of a checked request, its values within the engine's limits."""
    tuning: Tuning = read_tuning(request.tuning).clamped(limits)
    return Override(
        engine_id=request.engine_id,
        tuning=tuning,
        expires_at_s=now_s + seconds(request.ttl),
        reason=request.reason,
        decision_id=decision_id,
    )


def _zero(field: str, value: int | None) -> RequestFault | None:
    return RequestFault("INVALID_TUNING", field, "must be at least 1") if value == 0 else None


def _ttl_fault(request: admin_pb2.SetOverrideRequest) -> RequestFault | None:
    if not request.HasField("ttl"):
        return RequestFault("INVALID_TTL", "ttl", "is required")
    ttl_s = seconds(request.ttl)
    if not MIN_TTL_S <= ttl_s <= MAX_TTL_S:
        return RequestFault("INVALID_TTL", "ttl", f"{ttl_s:g} s is not between {MIN_TTL_S:g} s and {MAX_TTL_S:g} s")
    return None
