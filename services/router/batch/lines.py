"""Lines of a job: cutting a stream into lines, and one line into a checked request."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from google.protobuf.json_format import ParseDict, ParseError
from twinlane.inference.v1 import inference_pb2

from services.router.batch.openai_lines import OpenAiBodyError, OpenAiKind, read_body

MAX_LINE_BYTES = 8 * 1024 * 1024
_MAX_CUSTOM_ID_CHARS = 512


class LineError(Exception):
    """A line cannot be accepted; `path` names the place inside the line, "" for the line itself."""

    def __init__(self, path: str, description: str) -> None:
        super().__init__(f"{path}: {description}" if path else description)
        self.path = path
        self.description = description


class LineForm(Enum):
    """How a line is written, and so how its result is."""

    TWINLANE = "twinlane"
    OPENAI_CHAT = "openai_chat"
    OPENAI_COMPLETIONS = "openai_completions"


@dataclass(frozen=True, kw_only=True)
class ParsedLine:
    """A checked line."""

    custom_id: str
    form: LineForm
    request: inference_pb2.CompleteRequest


@dataclass(frozen=True, kw_only=True)
class RawLine:
    """One line as cut. `content` is None where it was over MAX_LINE_BYTES and its bytes were dropped."""

    number: int
    content: bytes | None


class LineSplitter:
    """Cuts pieces of a stream into lines, holding at most one line. Lines are counted from 1; empty ones are passed over."""

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._held = bytearray()
        self._dropping = False
        self._number = 1

    def feed(self, piece: bytes) -> Iterator[RawLine]:
        """Yield the lines that this piece completes."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._hold(piece[start:end])
            yield from self._complete()
            start = end + 1
        self._hold(piece[start:])

    def finish(self) -> Iterator[RawLine]:
        """Yield the last line where it has no end of line."""
        yield from self._complete()

    def _hold(self, part: bytes) -> None:
        if self._dropping:
            return
        self._held += part
        if len(self._held) > self._max_line_bytes:
            self._dropping = True
            self._held.clear()

    def _complete(self) -> Iterator[RawLine]:
        content = None if self._dropping else bytes(self._held).strip()
        if content != b"":
            yield RawLine(number=self._number, content=content)
        self._number += 1
        self._held.clear()
        self._dropping = False


def parse_line(content: bytes) -> ParsedLine:
    """Return the checked line. Raises LineError."""
    line = _read_object(content)
    custom_id = line.get("custom_id")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= _MAX_CUSTOM_ID_CHARS:
        raise LineError("custom_id", f"must be a text of 1 to {_MAX_CUSTOM_ID_CHARS} characters")
    if "body" in line:
        return _parse_openai(custom_id, line)
    return _parse_twinlane(custom_id, line)


def _read_object(content: bytes) -> dict[str, object]:
    try:
        line = json.loads(content)
    except UnicodeDecodeError as error:
        raise LineError("", f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise LineError("", f"is not JSON at column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise LineError("", "is nested too deeply") from None
    if not isinstance(line, dict):
        raise LineError("", "is not a JSON object")
    return line


def _parse_twinlane(custom_id: str, line: dict[str, object]) -> ParsedLine:
    unknown = sorted(set(line) - {"custom_id", "request"})
    if unknown:
        raise LineError(unknown[0], "unknown key; a line has custom_id and request, or custom_id and body")
    request = line.get("request")
    if not isinstance(request, dict):
        raise LineError("request", "is required and must be an object")
    try:
        parsed = ParseDict(request, inference_pb2.CompleteRequest())
    except ParseError as error:
        raise LineError("request", str(error)) from None
    return ParsedLine(custom_id=custom_id, form=LineForm.TWINLANE, request=parsed)


def _parse_openai(custom_id: str, line: dict[str, object]) -> ParsedLine:
    try:
        kind, request = read_body(line)
    except OpenAiBodyError as error:
        raise LineError(error.path, error.description) from None
    form = LineForm.OPENAI_CHAT if kind is OpenAiKind.CHAT else LineForm.OPENAI_COMPLETIONS
    return ParsedLine(custom_id=custom_id, form=form, request=request)
