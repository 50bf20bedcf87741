"""Why a call is refused or ends early, free of transport.

CallError
├── NotServingError        the engine is in a state that takes no requests
├── DuplicateRequestError  a running request has the name
├── PromptTooLongError     the prompt leaves no room for a token
├── DeadlineError          the caller's time is over, or was when the call came
├── EngineLostError        the backend's core ended in the middle of the call
└── StaleEpochError        a newer controller has spoken
"""

from dataclasses import dataclass
from enum import Enum

from services.engine.domain import EngineState


class CallError(Exception):
    """Ends one call; api/status.py gives it its code."""


@dataclass
class NotServingError(CallError):
    """`lost`: the core is gone, and this process ends soon."""

    state: EngineState
    lost: bool = False


@dataclass
class DuplicateRequestError(CallError):
    """The name is taken until its request has ended."""

    request_id: str


@dataclass
class PromptTooLongError(CallError):
    """`limit_tokens` is the longest prompt that the engine takes."""

    prompt_tokens: int
    limit_tokens: int


class DeadlineStage(Enum):
    """Where a call was when its time was over."""

    ARRIVAL = "arrival"
    QUEUE = "queue"
    ANSWER = "answer"


@dataclass
class DeadlineError(CallError):
    """The deadline passed."""

    stage: DeadlineStage


@dataclass
class EngineLostError(CallError):
    """`tokens_sent` counts tokens that the caller has already."""

    tokens_sent: int
    cause: str


@dataclass
class StaleEpochError(CallError):
    """`asked` is older than `newest`."""

    asked: int
    newest: int
