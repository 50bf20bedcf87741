"""How a request can end. Metrics, logs and status mapping all use these values."""

from enum import StrEnum


class Outcome(StrEnum):
    """The end of one request, one value each."""

    ANSWERED = "answered"
    INVALID = "invalid"
    PROMPT_TOO_LONG = "prompt_too_long"
    NO_ENGINE = "no_engine"
    DRAINING = "draining"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    ENGINE_LOST = "engine_lost"
    INTERNAL = "internal"
