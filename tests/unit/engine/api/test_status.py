"""The status of every cause."""

import grpc
import pytest

from services.engine.api.status import translate
from services.engine.domain import BackendLostError, EngineState
from services.engine.serving.errors import (
    DeadlineError,
    DeadlineStage,
    DuplicateRequestError,
    EngineLostError,
    NotServingError,
    PromptTooLongError,
    StaleEpochError,
)

CODE = grpc.StatusCode


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (NotServingError(EngineState.STARTING), CODE.UNAVAILABLE, "STARTING"),
        (NotServingError(EngineState.WARMING), CODE.UNAVAILABLE, "WARMING"),
        (NotServingError(EngineState.DRAINING), CODE.UNAVAILABLE, "DRAINING"),
        (NotServingError(EngineState.UNHEALTHY), CODE.UNAVAILABLE, "STALLED"),
        (NotServingError(EngineState.UNHEALTHY, lost=True), CODE.UNAVAILABLE, "ENGINE_LOST"),
        (DuplicateRequestError("r"), CODE.INVALID_ARGUMENT, "DUPLICATE_REQUEST_ID"),
        (PromptTooLongError(600, 511), CODE.INVALID_ARGUMENT, "PROMPT_TOO_LONG"),
        (DeadlineError(DeadlineStage.ARRIVAL), CODE.DEADLINE_EXCEEDED, "DEADLINE_HOPELESS"),
        (DeadlineError(DeadlineStage.QUEUE), CODE.DEADLINE_EXCEEDED, "DEADLINE_IN_QUEUE"),
        (DeadlineError(DeadlineStage.ANSWER), CODE.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        (EngineLostError(0, "killed"), CODE.UNAVAILABLE, "ENGINE_LOST"),
        (EngineLostError(3, "killed"), CODE.ABORTED, "ENGINE_LOST"),
        (BackendLostError("killed"), CODE.UNAVAILABLE, "ENGINE_LOST"),
        (StaleEpochError(4, 5), CODE.ABORTED, "STALE_EPOCH"),
    ],
)
def test_translate_of_a_cause_gives_its_status(error: Exception, code: grpc.StatusCode, reason: str) -> None:
    fault = translate(error)
    assert fault is not None
    assert (fault.code, fault.reason) == (code, reason)
    assert (fault.retry_after_s is not None) == (code is CODE.UNAVAILABLE)


def test_translate_of_an_unforeseen_error_is_left_to_the_boundary() -> None:
    assert translate(RuntimeError("x")) is None


def test_translate_of_a_loss_after_tokens_says_how_many() -> None:
    fault = translate(EngineLostError(3, "killed"))
    assert fault is not None
    assert fault.metadata == {"tokens_sent": "3"}


def test_translate_of_a_long_prompt_says_the_limit() -> None:
    fault = translate(PromptTooLongError(600, 511))
    assert fault is not None
    assert fault.metadata == {"limit_tokens": "511", "prompt_tokens": "600"}
