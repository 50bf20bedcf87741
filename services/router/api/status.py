"""Which status a caller gets: the router's one table from cause to fault, and from end to outcome."""

import asyncio

import grpc

from libs.core.outcomes import Outcome
from libs.rpc.fault import Fault, FaultError, FieldViolation, invalid_argument
from services.router.batch.domain import IdempotencyConflictError, JobUnknownError, StoreUnavailableError
from services.router.batch.submit import JobFaultsError
from services.router.domain import (
    AllDrainingError,
    DeadlineError,
    EngineLostError,
    NoEngineError,
    PromptTooLongError,
    TooManyNewTokensError,
)

# An engine that died is back in about this time; a new one joins the table within it.
_NO_ENGINE_RETRY_S = 1.0
# A rolling restart moves on.
_DRAINING_RETRY_S = 1.0
_ENGINE_LOST_RETRY_S = 0.1
_STORE_RETRY_S = 5.0


def translate(error: Exception) -> Fault | None:  # a table: one line of result for each cause
    """Return the fault of an error of this service; None where it is not one."""
    match error:
        case NoEngineError():
            return _unavailable("NO_ENGINE", error, _NO_ENGINE_RETRY_S)
        case AllDrainingError():
            return _unavailable("DRAINING", error, _DRAINING_RETRY_S)
        case PromptTooLongError():
            return invalid_argument(
                "PROMPT_TOO_LONG",
                FieldViolation("input", str(error)),
                metadata={"prompt_tokens": str(error.prompt_tokens), "limit_tokens": str(error.limit_tokens)},
            )
        case TooManyNewTokensError():
            return invalid_argument(
                "TOO_MANY_NEW_TOKENS",
                FieldViolation("stopping.max_new_tokens", str(error)),
                metadata={"limit_tokens": str(error.room_tokens)},
            )
        case DeadlineError():
            return Fault(code=grpc.StatusCode.DEADLINE_EXCEEDED, reason=error.kind.value, message=str(error))
        case EngineLostError(started=True):
            return _lost(grpc.StatusCode.ABORTED, error, retry_after_s=None)
        case EngineLostError():
            return _lost(grpc.StatusCode.UNAVAILABLE, error, retry_after_s=_ENGINE_LOST_RETRY_S)
        case _:
            return _translate_batch(error)


def _translate_batch(error: Exception) -> Fault | None:
    match error:
        case JobUnknownError():
            return Fault(code=grpc.StatusCode.NOT_FOUND, reason="JOB_UNKNOWN", message=f"there is no {error} of this tenant")
        case JobFaultsError():
            violations = (FieldViolation(path, description) for path, description in error.faults)
            return invalid_argument("INVALID_LINES", *violations)
        case IdempotencyConflictError():
            return Fault(
                code=grpc.StatusCode.ALREADY_EXISTS,
                reason="IDEMPOTENCY_CONFLICT",
                message=f"the idempotency key was used for {error.job_id} with other content",
                metadata={"job_id": error.job_id},
            )
        case StoreUnavailableError():
            return _unavailable("STORE_UNAVAILABLE", error, _STORE_RETRY_S)
        case _:
            return None


_OUTCOMES_BY_REASON = {
    "NO_ENGINE": Outcome.NO_ENGINE,
    "DRAINING": Outcome.DRAINING,
    "PROMPT_TOO_LONG": Outcome.PROMPT_TOO_LONG,
    "ENGINE_LOST": Outcome.ENGINE_LOST,
}
_OUTCOMES_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: Outcome.INVALID,
    grpc.StatusCode.DEADLINE_EXCEEDED: Outcome.DEADLINE,
    grpc.StatusCode.CANCELLED: Outcome.CANCELLED,
    grpc.StatusCode.UNAVAILABLE: Outcome.NO_ENGINE,
}


def to_outcome(error: BaseException) -> Outcome:
    """Return how a call ended that raised this."""
    if isinstance(error, asyncio.CancelledError):
        return Outcome.CANCELLED
    fault = error.fault if isinstance(error, FaultError) else translate(error) if isinstance(error, Exception) else None
    if fault is None:
        return Outcome.INTERNAL
    return _OUTCOMES_BY_REASON.get(fault.reason) or _OUTCOMES_BY_CODE.get(fault.code, Outcome.INTERNAL)


def _unavailable(reason: str, error: Exception, retry_after_s: float) -> Fault:
    return Fault(code=grpc.StatusCode.UNAVAILABLE, reason=reason, message=str(error), retry_after_s=retry_after_s)


def _lost(code: grpc.StatusCode, error: EngineLostError, *, retry_after_s: float | None) -> Fault:
    return Fault(
        code=code,
        reason="ENGINE_LOST",
        message=str(error),
        metadata={"engine_id": error.engine_id, "tokens_sent": str(error.tokens_sent)},
        retry_after_s=retry_after_s,
    )
