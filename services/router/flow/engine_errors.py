"""What the failure of an engine call means to this call and to the next one."""

from dataclasses import dataclass

import grpc

from libs.rpc.fault import Fault, FaultError, read_fault
from services.router.domain import DeadlineError, DeadlineKind, EngineLostError

# Statuses that the transport makes when the other side went away in the middle.
_LOST_CODES = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED}
)
_UNKNOWN = "UNKNOWN"
_LOST = "ENGINE_LOST"


@dataclass(frozen=True, kw_only=True)
class EngineFailure:
    """`error` is what the caller gets where no other engine is tried; `suspect`: pass the engine over for a while;
    `elsewhere`: another engine may do better, provided that no token was sent."""

    error: Exception
    suspect: bool
    elsewhere: bool


def judge(error: grpc.aio.AioRpcError, *, engine_id: str, tokens_sent: int, started: bool) -> EngineFailure:
    """Return the meaning of a failed engine call."""
    fault = read_fault(error)
    if fault.reason == _LOST or (fault.reason == _UNKNOWN and fault.code in _LOST_CODES):
        lost = EngineLostError(engine_id=engine_id, tokens_sent=tokens_sent, started=started)
        return EngineFailure(error=lost, suspect=True, elsewhere=True)
    if fault.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return EngineFailure(error=DeadlineError(DeadlineKind.IN_ENGINE), suspect=False, elsewhere=False)
    if fault.code is grpc.StatusCode.UNAVAILABLE:
        return EngineFailure(error=FaultError(fault), suspect=False, elsewhere=True)
    return EngineFailure(error=FaultError(_passed_on(fault)), suspect=False, elsewhere=False)


def _passed_on(fault: Fault) -> Fault:
    """An engine's own refusal keeps its words; a status without them says nothing that callers could use."""
    if fault.reason != _UNKNOWN:
        return fault
    return Fault(code=grpc.StatusCode.INTERNAL, reason="ENGINE_FAILED", message="the engine failed; its log says why")
