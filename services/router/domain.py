"""What a router works with, free of transport."""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

from libs.core.lanes import Lane


class EngineState(IntEnum):
    """Life of an engine. Numbers are those of twinlane.common.v1.EngineState."""

    UNSPECIFIED = 0
    STARTING = 1
    WARMING = 2
    SERVING = 3
    DRAINING = 4
    UNHEALTHY = 5

    @classmethod
    def _missing_(cls, value: object) -> "EngineState":  # noqa: ARG003  # any number will do
        """A state that only newer engines know is none in which to send requests."""
        return cls.UNSPECIFIED


class Freshness(IntEnum):
    """Trust in a load reading. Numbers are those of twinlane.router.v1.Freshness."""

    FRESH = 1
    STALE = 2
    ABSENT = 3


class TableSource(IntEnum):
    """Where the engine table came from. Numbers are those of twinlane.router.v1.TableSource."""

    CONTROLLER = 1
    RETAINED = 2
    STATIC = 3


class LaneReason(Enum):
    """Why a request is in its lane."""

    LANE_FIELD = "lane_field"
    REQUEST_TYPE = "x-request-type"
    LONG_PROMPT = "long_prompt"
    LOW_PRIORITY = "x-priority"
    LOW_LATENCY = "x-require-low-latency"
    DEFAULT = "default"


class LaneDecision(NamedTuple):
    """A request's lane, and why."""

    lane: Lane
    reason: LaneReason


class Load(NamedTuple):
    """An engine's load as a router judges it.

    `backlog_tokens`: prompt tokens not processed yet, as telemetry last said; `unseen_tokens`: of calls of this router that
    the reading cannot include yet. Rates are None where unknown.
    """

    freshness: Freshness
    backlog_tokens: int
    unseen_tokens: int
    in_flight: int
    prompt_tokens_per_s: float | None
    step_s: float | None


class EngineView(NamedTuple):
    """One engine at the moment of a choice."""

    engine_id: str
    pool: str
    state: EngineState
    suspect: bool
    max_context_tokens: int
    load: Load


class Need(NamedTuple):
    """What a request needs of an engine: room for its prompt and `new_tokens` more (1 where it named no number)."""

    prompt_tokens: int
    new_tokens: int


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who calls and what the call's metadata asks for."""

    tenant: str
    request_type: Lane | None
    low_priority: bool
    low_latency: bool


class RouterError(Exception):
    """Root of what ends a call by this router's own decision."""


class NoEngineError(RouterError):
    """No engine of the lane's pools takes requests now."""

    def __init__(self, lane: Lane, pools: tuple[str, ...]) -> None:
        super().__init__(f"no engine serves the {lane.name.lower()} lane now (pools: {', '.join(pools)})")


class AllDrainingError(RouterError):
    """Every engine of the lane's pools is draining, or this router is."""


class PromptTooLongError(RouterError):
    """The prompt is longer than any engine of the lane takes."""

    def __init__(self, *, prompt_tokens: int, limit_tokens: int) -> None:
        super().__init__(f"the prompt has {prompt_tokens} tokens; the longest that the lane's engines take is {limit_tokens}")
        self.prompt_tokens = prompt_tokens
        self.limit_tokens = limit_tokens


class TooManyNewTokensError(RouterError):
    """Prompt and wanted tokens together are more than any engine of the lane holds."""

    def __init__(self, *, new_tokens: int, room_tokens: int) -> None:
        super().__init__(f"{new_tokens} is over the {room_tokens} tokens of room that the prompt leaves")
        self.room_tokens = room_tokens


class DeadlineKind(Enum):
    """When a deadline was found to be spent."""

    HOPELESS = "DEADLINE_HOPELESS"
    IN_QUEUE = "DEADLINE_IN_QUEUE"
    IN_ENGINE = "DEADLINE_IN_ENGINE"


class DeadlineError(RouterError):
    """The caller's deadline is spent."""

    def __init__(self, kind: DeadlineKind) -> None:
        words = {
            DeadlineKind.HOPELESS: "the deadline had passed on arrival",
            DeadlineKind.IN_QUEUE: "the deadline passed before an engine took the request",
            DeadlineKind.IN_ENGINE: "the deadline passed while the engine worked",
        }
        super().__init__(words[kind])
        self.kind = kind


class EngineLostError(RouterError):
    """The engine went away during a call."""

    def __init__(self, *, engine_id: str, tokens_sent: int, started: bool) -> None:
        super().__init__(f"engine {engine_id} was lost after {tokens_sent} tokens")
        self.engine_id = engine_id
        self.tokens_sent = tokens_sent
        self.started = started
