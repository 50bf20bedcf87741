"""What a caller hands in and gets back: frozen plain types, so that callers see no protobuf."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

from libs.core.lanes import Lane

# Long enough for a batch answer that waits its turn; realtime callers set their own.
DEFAULT_DEADLINE_S = 120.0
DEFAULT_TENANT = "default"

# What the unsigned fields of the protos hold; whether a value makes sense is the server's to say.
_WIRE_MAXIMA = {"max_new_tokens": 2**32 - 1, "top_k": 2**32 - 1, "seed": 2**64 - 1}


@dataclass(frozen=True, kw_only=True)
class ChatMessage:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class TokenIds:
    """A prompt that the caller has tokenised already, with the model's own vocabulary."""

    ids: Sequence[int]


# Plain text that is continued as it stands, a conversation that the model's chat template turns into a prompt, or tokens.
Prompt: TypeAlias = str | Sequence[ChatMessage] | TokenIds


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """How one request is served. None leaves a choice to the mesh; ranges are those of the protos.

    `deadline_s` covers every attempt together. `metadata` is sent with the call beside what the client sets itself; its
    keys are lower case.
    """

    deadline_s: float = DEFAULT_DEADLINE_S
    tenant: str = DEFAULT_TENANT
    lane: Lane | None = None
    priority: int = 0
    request_id: str = ""
    model: str = ""
    max_new_tokens: int | None = None
    stop: Sequence[str] = ()
    ignore_eos: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    cache_salt: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.deadline_s > 0:
            raise ValueError(f"deadline_s: {self.deadline_s} must be above 0")
        for name, greatest in _WIRE_MAXIMA.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value <= greatest:
                raise ValueError(f"{name}: {value} must be at least 0 and at most {greatest}")


class FinishReason(IntEnum):
    """Why generation ended. Numbers are those of twinlane.common.v1.FinishReason."""

    UNSPECIFIED = 0
    STOP = 1
    LENGTH = 2


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Token counts of one request."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Where the time went, in milliseconds; None where the mesh did not say."""

    router_queue_ms: float | None
    engine_first_token_ms: float
    engine_total_ms: float
    router_total_ms: float | None


@dataclass(frozen=True, kw_only=True)
class Started:
    """First event: the request was placed and its first token is there. `lane` is None where no router chose one."""

    request_id: str
    model: str
    engine_id: str
    prompt_tokens: int
    cached_tokens: int
    lane: Lane | None
    router_queue_ms: float


@dataclass(frozen=True, kw_only=True)
class Delta:
    """Text generated since the event before; may be empty while a character is incomplete."""

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Last event. `attempts` counts the engines that the router called; `retries` what this client sent again."""

    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    attempts: int
    retries: int


Event: TypeAlias = Started | Delta | Finished


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A whole answer."""

    request_id: str
    model: str
    engine_id: str
    text: str
    token_ids: tuple[int, ...]
    lane: Lane | None
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    attempts: int
    retries: int
