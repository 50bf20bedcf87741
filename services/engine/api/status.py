"""Every cause with which a call to an engine can fail, and the status that it gets."""

from typing import assert_never

import grpc

from libs.rpc.fault import Fault, FieldViolation, invalid_argument
from services.engine.domain import BackendLostError, EngineState
from services.engine.serving.errors import (
    CallError,
    DeadlineError,
    DeadlineStage,
    DuplicateRequestError,
    EngineLostError,
    NotServingError,
    PromptTooLongError,
    StaleEpochError,
)

# Another engine is a better choice at once; this one may be back after this.
_RETRY_NOT_SERVING_S = 1.0
_DEADLINE_REASONS = {
    DeadlineStage.ARRIVAL: ("DEADLINE_HOPELESS", "the deadline had passed when the call came"),
    DeadlineStage.QUEUE: ("DEADLINE_IN_QUEUE", "the deadline passed before the first token"),
    DeadlineStage.ANSWER: ("DEADLINE_EXCEEDED", "the deadline passed before the answer was complete"),
}


def translate(error: Exception) -> Fault | None:
    """Return the fault of an error, or None for one that nobody foresaw."""
    if isinstance(error, BackendLostError):
        return _lost_fault(EngineLostError(tokens_sent=0, cause=str(error)))
    return _call_fault(error) if isinstance(error, CallError) else None


def _call_fault(error: CallError) -> Fault | None:
    match error:
        case NotServingError():
            return _not_serving_fault(error)
        case DuplicateRequestError():
            violation = FieldViolation("request_id", f"{error.request_id!r} is the name of a running request")
            return invalid_argument("DUPLICATE_REQUEST_ID", violation)
        case PromptTooLongError():
            return _too_long_fault(error)
        case DeadlineError():
            reason, message = _DEADLINE_REASONS[error.stage]
            return Fault(code=grpc.StatusCode.DEADLINE_EXCEEDED, reason=reason, message=message)
        case EngineLostError():
            return _lost_fault(error)
        case StaleEpochError():
            return _stale_fault(error)
        case _:
            return None


def _not_serving_fault(error: NotServingError) -> Fault:
    reason, message = ("ENGINE_LOST", "the engine's core has ended") if error.lost else _state_words(error.state)
    return Fault(code=grpc.StatusCode.UNAVAILABLE, reason=reason, message=message, retry_after_s=_RETRY_NOT_SERVING_S)


def _state_words(state: EngineState) -> tuple[str, str]:
    match state:
        case EngineState.STARTING:
            return "STARTING", "the engine is loading its model"
        case EngineState.WARMING:
            return "WARMING", "the engine is warming up"
        case EngineState.DRAINING:
            return "DRAINING", "the engine is draining and takes no new requests"
        case EngineState.UNHEALTHY:
            return "STALLED", "the engine has queued work and makes no steps"
        case EngineState.SERVING:
            return "INTERRUPTED", "the engine could not take the request"
        case _:
            assert_never(state)


def _too_long_fault(error: PromptTooLongError) -> Fault:
    return invalid_argument(
        "PROMPT_TOO_LONG",
        FieldViolation("token_ids", f"{error.prompt_tokens} tokens; at most {error.limit_tokens}"),
        metadata={"limit_tokens": str(error.limit_tokens), "prompt_tokens": str(error.prompt_tokens)},
    )


def _lost_fault(error: EngineLostError) -> Fault:
    """Before the first token another engine may take over; afterwards the caller must decide."""
    if error.tokens_sent == 0:
        return Fault(
            code=grpc.StatusCode.UNAVAILABLE,
            reason="ENGINE_LOST",
            message=f"the engine's core has ended: {error.cause}",
            retry_after_s=_RETRY_NOT_SERVING_S,
        )
    return Fault(
        code=grpc.StatusCode.ABORTED,
        reason="ENGINE_LOST",
        message=f"the engine's core has ended after {error.tokens_sent} tokens: {error.cause}",
        metadata={"tokens_sent": str(error.tokens_sent)},
    )


def _stale_fault(error: StaleEpochError) -> Fault:
    return Fault(
        code=grpc.StatusCode.ABORTED,
        reason="STALE_EPOCH",
        message=f"controller_epoch: {error.asked} is older than {error.newest}",
        metadata={"controller_epoch": str(error.asked), "newest_epoch": str(error.newest)},
    )
