"""Layer: is the request in order? Everything that can be said without tokens or engines; all faults together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.lanes import Lane
from libs.rpc.fault import FaultError, FieldViolation, invalid_argument
from services.router.domain import Identity
from services.router.flow.identity import read_identity

Request = inference_pb2.GenerateRequest | inference_pb2.CompleteRequest

# No model holds more; what is over is a negative number on its way through an unsigned field, or a mistake.
MAX_NEW_TOKENS_BOUND = 1 << 24
DEFAULT_MAX_NEW_TOKENS = 128
_MAX_REQUEST_ID_CHARS = 128
_MAX_SALT_CHARS = 128
_MAX_STOPS = 16
_MAX_STOP_CHARS = 256
_MAX_PRIORITY = 100
_MAX_TEMPERATURE = 2.0
_ROLES = frozenset({"system", "user", "assistant"})
_LANES = {lane.value: lane for lane in Lane}


@dataclass(frozen=True, kw_only=True)
class RequestRules:
    """What depends on the mesh."""

    model: str
    vocabulary_size: int


def check_call(request: Request, metadata: Mapping[str, str], rules: RequestRules) -> tuple[Identity, Lane | None]:
    """Return who calls and the lane that the request names. Raises FaultError INVALID_ARGUMENT with every fault of metadata and
    message."""
    try:
        identity = read_identity(metadata)
    except FaultError as error:
        in_metadata = error.fault
        in_message = (violation for _, violation in _faults(request, rules))
        raise FaultError(invalid_argument(in_metadata.reason, *in_metadata.violations, *in_message)) from None
    return identity, check_request(request, rules)


def check_request(request: Request, rules: RequestRules) -> Lane | None:
    """Return the lane that the request names. Raises FaultError INVALID_ARGUMENT with every fault; its reason is that of the
    first."""
    faults = list(_faults(request, rules))
    if faults:
        reason, _ = faults[0]
        raise FaultError(invalid_argument(reason, *(violation for _, violation in faults)))
    return _LANES.get(request.lane)


def _faults(request: Request, rules: RequestRules) -> Iterator[tuple[str, FieldViolation]]:
    if request.model and request.model != rules.model:
        yield "UNKNOWN_MODEL", FieldViolation("model", f"{request.model!r} is not served; this mesh serves {rules.model!r}")
    if request.request_id and not _is_name(request.request_id, _MAX_REQUEST_ID_CHARS):
        yield _bad("request_id", f"must be at most {_MAX_REQUEST_ID_CHARS} printable ASCII characters")
    yield from _input_faults(request, rules)
    if request.HasField("sampling"):
        yield from _sampling_faults(request.sampling)
    if request.HasField("stopping"):
        yield from _stopping_faults(request.stopping)
    if len(request.kv.cache_salt) > _MAX_SALT_CHARS:
        yield _bad("kv.cache_salt", f"must be at most {_MAX_SALT_CHARS} characters")
    if request.lane and request.lane not in _LANES:
        yield _bad("lane", f"{request.lane} is not a lane")
    if abs(request.priority) > _MAX_PRIORITY:
        yield _bad("priority", f"must be -{_MAX_PRIORITY} to {_MAX_PRIORITY}")


def _input_faults(request: Request, rules: RequestRules) -> Iterator[tuple[str, FieldViolation]]:
    match request.WhichOneof("input"):
        case "prompt":
            if not request.prompt:
                yield "EMPTY_PROMPT", FieldViolation("prompt", "is empty")
        case "token_ids":
            ids = request.token_ids.ids
            if not ids:
                yield "EMPTY_PROMPT", FieldViolation("token_ids.ids", "is empty")
            elif max(ids) >= rules.vocabulary_size:
                yield _bad("token_ids.ids", f"{max(ids)} is not a token; the model has {rules.vocabulary_size}")
        case "chat":
            yield from _chat_faults(request.chat)
        case _:
            yield "EMPTY_PROMPT", FieldViolation("input", "one of prompt, token_ids and chat is required")


def _chat_faults(chat: inference_pb2.Chat) -> Iterator[tuple[str, FieldViolation]]:
    if not chat.messages:
        yield "EMPTY_PROMPT", FieldViolation("chat.messages", "is empty")
    for place, message in enumerate(chat.messages):
        if message.role not in _ROLES:
            yield _bad(f"chat.messages[{place}].role", f"{message.role!r} is not one of {', '.join(sorted(_ROLES))}")
    if chat.messages and not any(message.content for message in chat.messages):
        yield "EMPTY_PROMPT", FieldViolation("chat.messages", "has no content")


def _sampling_faults(sampling: generation_pb2.Sampling) -> Iterator[tuple[str, FieldViolation]]:
    # Written so that NaN is a fault.
    if not 0 <= sampling.temperature <= _MAX_TEMPERATURE:
        yield _bad("sampling.temperature", f"must be 0 to {_MAX_TEMPERATURE:g}")
    if sampling.HasField("top_p") and not 0 < sampling.top_p <= 1:
        yield _bad("sampling.top_p", "must be above 0, at most 1")


def _stopping_faults(stopping: generation_pb2.Stopping) -> Iterator[tuple[str, FieldViolation]]:
    if stopping.HasField("max_new_tokens") and not 0 < stopping.max_new_tokens < MAX_NEW_TOKENS_BOUND:
        words = (
            "must be at least 1" if stopping.max_new_tokens == 0 else f"{stopping.max_new_tokens} is over any model's context"
        )
        yield _bad("stopping.max_new_tokens", words)
    if len(stopping.stop) > _MAX_STOPS:
        yield _bad("stopping.stop", f"must be at most {_MAX_STOPS} texts")
    for place, stop in enumerate(stopping.stop):
        if not 0 < len(stop) <= _MAX_STOP_CHARS:
            yield _bad(f"stopping.stop[{place}]", f"must be 1 to {_MAX_STOP_CHARS} characters")


def _is_name(text: str, max_chars: int) -> bool:
    return len(text) <= max_chars and text.isascii() and text.isprintable()


def _bad(field: str, description: str) -> tuple[str, FieldViolation]:
    return "INVALID_FIELD", FieldViolation(field, description)
