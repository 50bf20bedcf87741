"""Lines of a job's results as readers get them, in Twinlane's or OpenAI's form."""

import json
from enum import Enum
from typing import Any

from google.protobuf.json_format import ParseDict
from twinlane.inference.v1 import inference_pb2

from services.router.batch.domain import EndedItem
from services.router.batch.openai_lines import OpenAiKind, answer_line, error_line
from services.router.batch.store import BlobStore


class ResultForm(Enum):
    """How to write a result."""

    TWINLANE = "twinlane"
    OPENAI = "openai"


async def result_text(item: EndedItem, form: ResultForm, *, store: BlobStore, kind: OpenAiKind, created_s: int) -> str:
    """Return one ended item as one JSON line without its end of line. Raises StoreUnavailableError."""
    if item.result is None:
        return _dump(_error(item, form))
    stored = (await store.read(item.result)).decode()
    if form is ResultForm.TWINLANE:
        return stored
    response = ParseDict(json.loads(stored)["response"], inference_pb2.CompleteResponse())
    return _dump(answer_line(item.custom_id, kind, response, created_s=created_s))


def _error(item: EndedItem, form: ResultForm) -> dict[str, Any]:
    message = item.message or item.state.name.lower()
    if form is ResultForm.OPENAI:
        return error_line(item.custom_id, code=item.reason, message=message)
    return {
        "custom_id": item.custom_id,
        "error": {"state": item.state.name, "reason": item.reason, "message": message, "attempts": item.attempts},
    }


def _dump(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))
