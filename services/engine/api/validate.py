"""Generation requests, checked: every fault is named with its field."""

from collections.abc import Iterator
from dataclasses import dataclass

from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.engine.v1 import engine_pb2

from libs.core.lanes import Lane
from libs.rpc.fault import FaultError, FieldViolation, invalid_argument
from services.engine.domain import BackendRequest, Limits, Sampling
from services.engine.serving.errors import PromptTooLongError

DEFAULT_MAX_NEW_TOKENS = 128
MAX_REQUEST_ID_CHARS = 128
MAX_SALT_CHARS = 256
MAX_STOPS = 16
PRIORITY_BOUND = 100
MAX_TEMPERATURE = 2.0
INVALID = "INVALID_REQUEST"
UNKNOWN_MODEL = "UNKNOWN_MODEL"

WireRequest = engine_pb2.GenerateRequest | engine_pb2.CompleteRequest

_LANES = {lane_pb2.LANE_REALTIME: Lane.REALTIME, lane_pb2.LANE_BATCH: Lane.BATCH, lane_pb2.LANE_AUTO: Lane.AUTO}


@dataclass(frozen=True, kw_only=True)
class RequestRules:
    """What requests are checked against. `vocabulary_size` is None where it is not known."""

    model: str
    limits: Limits
    vocabulary_size: int | None


def check(request: WireRequest, rules: RequestRules) -> BackendRequest:
    """Return the request as the backend takes it. Raises FaultError INVALID_ARGUMENT with every fault; PromptTooLongError."""
    violations = [*_name_faults(request), *_token_faults(request, rules), *_sampling_faults(request.sampling)]
    violations += _stopping_faults(request.stopping)
    if violations:
        raise FaultError(invalid_argument(INVALID, *violations))
    if request.model != rules.model:
        violation = FieldViolation("model", f"{request.model!r} is not served here; this engine serves {rules.model!r}")
        raise FaultError(invalid_argument(UNKNOWN_MODEL, violation, metadata={"model": rules.model}))
    return BackendRequest(
        request_id=request.request_id,
        token_ids=list(request.token_ids),
        lane=_LANES[request.lane],
        max_new_tokens=_room(request, rules.limits.max_context_tokens),
        sampling=_sampling(request.sampling),
        stop=tuple(request.stopping.stop),
        ignore_eos=request.stopping.ignore_eos,
        cache_salt=request.cache_salt,
        priority=request.priority,
    )


def _room(request: WireRequest, context_tokens: int) -> int:
    """Return tokens to generate: what was asked for, or the default clipped to the room behind the prompt."""
    prompt_tokens = len(request.token_ids)
    if prompt_tokens >= context_tokens:
        raise PromptTooLongError(prompt_tokens, context_tokens - 1)
    room = context_tokens - prompt_tokens
    if not request.stopping.HasField("max_new_tokens"):
        return min(DEFAULT_MAX_NEW_TOKENS, room)
    asked = request.stopping.max_new_tokens
    if asked > room:
        violation = FieldViolation(
            "stopping.max_new_tokens",
            f"{asked} is over {room}: the context of {context_tokens} tokens less a prompt of {prompt_tokens}",
        )
        raise FaultError(invalid_argument("TOO_MANY_NEW_TOKENS", violation, metadata={"limit_tokens": str(room)}))
    return asked


def _name_faults(request: WireRequest) -> Iterator[FieldViolation]:
    if not request.request_id:
        yield FieldViolation("request_id", "is required")
    if len(request.request_id) > MAX_REQUEST_ID_CHARS:
        yield FieldViolation("request_id", f"has {len(request.request_id)} characters; at most {MAX_REQUEST_ID_CHARS}")
    if not request.model:
        yield FieldViolation("model", "is required")
    if len(request.cache_salt) > MAX_SALT_CHARS:
        yield FieldViolation("cache_salt", f"has {len(request.cache_salt)} characters; at most {MAX_SALT_CHARS}")
    if request.lane not in _LANES:
        yield FieldViolation("lane", "must be LANE_REALTIME, LANE_BATCH or LANE_AUTO")
    if abs(request.priority) > PRIORITY_BOUND:
        yield FieldViolation("priority", f"{request.priority} is not between -{PRIORITY_BOUND} and {PRIORITY_BOUND}")


def _token_faults(request: WireRequest, rules: RequestRules) -> Iterator[FieldViolation]:
    if not request.token_ids:
        yield FieldViolation("token_ids", "at least one token is required")
    elif rules.vocabulary_size is not None and max(request.token_ids) >= rules.vocabulary_size:
        yield FieldViolation("token_ids", f"{max(request.token_ids)} is not below the vocabulary size {rules.vocabulary_size}")


def _sampling_faults(sampling: generation_pb2.Sampling) -> Iterator[FieldViolation]:
    if not 0 <= sampling.temperature <= MAX_TEMPERATURE:
        yield FieldViolation("sampling.temperature", f"{sampling.temperature} is not between 0 and {MAX_TEMPERATURE:g}")
    if sampling.HasField("top_p") and not 0 < sampling.top_p <= 1:
        yield FieldViolation("sampling.top_p", f"{sampling.top_p} is not above 0 and at most 1")


def _stopping_faults(stopping: generation_pb2.Stopping) -> Iterator[FieldViolation]:
    if stopping.HasField("max_new_tokens") and stopping.max_new_tokens == 0:
        yield FieldViolation("stopping.max_new_tokens", "must be at least 1")
    if len(stopping.stop) > MAX_STOPS:
        yield FieldViolation("stopping.stop", f"has {len(stopping.stop)} texts; at most {MAX_STOPS}")
    for index, text in enumerate(stopping.stop):
        if not text:
            yield FieldViolation(f"stopping.stop[{index}]", "must not be empty")


def _sampling(sampling: generation_pb2.Sampling) -> Sampling:
    return Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p if sampling.HasField("top_p") else 1.0,
        top_k=sampling.top_k,
        seed=sampling.seed if sampling.HasField("seed") else None,
    )
