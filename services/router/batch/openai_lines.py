"""OpenAI batch files: the body of a line into a request, an answer into a line of the output file.

Format: https://platform.openai.com/docs/guides/batch
"""

from enum import Enum
from typing import Any

from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

_CHAT_URL = "/v1/chat/completions"
_COMPLETIONS_URL = "/v1/completions"
_FINISH = {
    generation_pb2.FINISH_REASON_STOP: "stop",
    generation_pb2.FINISH_REASON_LENGTH: "length",
}
# Keys that change nothing here: names for the caller's own books.
_IGNORED = frozenset({"user", "metadata", "store", "service_tier"})
# Keys with one value that means "as Twinlane does anyway".
_FIXED: dict[str, object] = {
    "n": 1,
    "stream": False,
    "best_of": 1,
    "echo": False,
    "logprobs": False,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
_READ = frozenset(
    {"model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop"}
)


class OpenAiKind(Enum):
    """Which endpoint a line is written for."""

    CHAT = "chat.completion"
    COMPLETIONS = "text_completion"


class OpenAiBodyError(Exception):
    """The line asks for what cannot be done; `path` names the key."""

    def __init__(self, path: str, description: str) -> None:
        super().__init__(f"{path}: {description}")
        self.path = path
        self.description = description


def read_body(line: dict[str, Any]) -> tuple[OpenAiKind, inference_pb2.CompleteRequest]:
    """Return endpoint and request of a line. Raises OpenAiBodyError."""
    body = line["body"]
    if not isinstance(body, dict):
        raise OpenAiBodyError("body", "must be an object")
    kind = _kind(line, body)
    _refuse_unsupported(body)
    request = inference_pb2.CompleteRequest(model=_text(body, "model"))
    if kind is OpenAiKind.CHAT:
        request.chat.CopyFrom(_chat(body))
    else:
        request.prompt = _text(body, "prompt")
    _read_sampling(body, request)
    _read_stopping(body, request)
    return kind, request


def _kind(line: dict[str, Any], body: dict[str, Any]) -> OpenAiKind:
    url = line.get("url", _CHAT_URL if "messages" in body else _COMPLETIONS_URL)
    if url == _CHAT_URL:
        return OpenAiKind.CHAT
    if url == _COMPLETIONS_URL:
        return OpenAiKind.COMPLETIONS
    raise OpenAiBodyError("url", f"must be {_CHAT_URL} or {_COMPLETIONS_URL}")


def _refuse_unsupported(body: dict[str, Any]) -> None:
    for key, value in body.items():
        if key in _READ or key in _IGNORED:
            continue
        if key not in _FIXED:
            raise OpenAiBodyError(f"body.{key}", "is not supported")
        if value is not None and value != _FIXED[key]:
            raise OpenAiBodyError(f"body.{key}", f"must be {_FIXED[key]!r} or absent".replace("False", "false"))


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key, "")
    if not isinstance(value, str):
        raise OpenAiBodyError(f"body.{key}", "must be a text")
    return value


def _chat(body: dict[str, Any]) -> inference_pb2.Chat:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise OpenAiBodyError("body.messages", "must be a list with at least one message")
    chat = inference_pb2.Chat()
    for place, message in enumerate(messages):
        path = f"body.messages[{place}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise OpenAiBodyError(path, "must be an object with role and content")
        chat.messages.add(role=message["role"], content=_content(message.get("content"), f"{path}.content"))
    return chat


def _content(content: object, path: str) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise OpenAiBodyError(path, "must be a text or a list of text parts")


def _number(body: dict[str, Any], key: str) -> float | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OpenAiBodyError(f"body.{key}", "must be a number")
    return value


def _whole(body: dict[str, Any], key: str, *, below: int) -> int | None:
    value = _number(body, key)
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < below:
        raise OpenAiBodyError(f"body.{key}", f"must be a whole number from 0 to {below - 1}")
    return value


def _read_sampling(body: dict[str, Any], request: inference_pb2.CompleteRequest) -> None:
    # OpenAI's default is 1, ours 0: a line means what it means where it came from.
    temperature = _number(body, "temperature")
    request.sampling.temperature = 1.0 if temperature is None else temperature
    top_p = _number(body, "top_p")
    if top_p is not None:
        request.sampling.top_p = top_p
    seed = _whole(body, "seed", below=1 << 64)
    if seed is not None:
        request.sampling.seed = seed


def _read_stopping(body: dict[str, Any], request: inference_pb2.CompleteRequest) -> None:
    for key in ("max_tokens", "max_completion_tokens"):
        count = _whole(body, key, below=1 << 32)
        if count is not None:
            request.stopping.max_new_tokens = count
    stop = body.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise OpenAiBodyError("body.stop", "must be a text or a list of texts")
    request.stopping.stop.extend(stops)


def answer_line(
    custom_id: str, kind: OpenAiKind, response: inference_pb2.CompleteResponse, *, created_s: int
) -> dict[str, object]:
    """Return a line of the output file for an answer."""
    finish = _FINISH.get(response.finish_reason)
    choice: dict[str, object] = {"index": 0, "finish_reason": finish, "logprobs": None}
    if kind is OpenAiKind.CHAT:
        choice["message"] = {"role": "assistant", "content": response.text}
    else:
        choice["text"] = response.text
    usage = response.usage
    body = {
        "id": response.request_id,
        "object": kind.value,
        "created": created_s,
        "model": response.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }
    return {
        "id": f"batch_req_{response.request_id}",
        "custom_id": custom_id,
        "response": {"status_code": 200, "request_id": response.request_id, "body": body},
        "error": None,
    }


def error_line(custom_id: str, *, code: str, message: str) -> dict[str, object]:
    """Return a line of the error file."""
    return {
        "id": f"batch_req_{custom_id}",
        "custom_id": custom_id,
        "response": None,
        "error": {"code": code, "message": message},
    }
