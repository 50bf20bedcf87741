"""Checks of what BatchService is asked for. Every function raises FaultError with the field's path."""

import base64
import binascii
import struct

from twinlane.batch.v1 import batch_pb2

from libs.rpc.fault import FaultError, FieldViolation, invalid_argument
from services.router.batch.result_lines import ResultForm

DEFAULT_WINDOW_S = 24 * 3600.0
MIN_WINDOW_S = 60.0
MAX_WINDOW_S = 30 * 24 * 3600.0
DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000
_MAX_KEY_CHARS = 128
_MAX_NAME_CHARS = 128
_MAX_PRIORITY = 100


def check_spec(spec: batch_pb2.JobSpec) -> float:
    """Return the completion window in seconds."""
    faults: list[FieldViolation] = []
    key = spec.idempotency_key
    if not 0 < len(key) <= _MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
        faults.append(FieldViolation("spec.idempotency_key", f"must be 1 to {_MAX_KEY_CHARS} printable ASCII characters"))
    if len(spec.display_name) > _MAX_NAME_CHARS:
        faults.append(FieldViolation("spec.display_name", f"must be at most {_MAX_NAME_CHARS} characters"))
    if spec.format not in batch_pb2.LineFormat.values():
        faults.append(FieldViolation("spec.format", f"{spec.format} is not a LineFormat"))
    if abs(spec.priority) > _MAX_PRIORITY:
        faults.append(FieldViolation("spec.priority", f"must be -{_MAX_PRIORITY} to {_MAX_PRIORITY}"))
    window_s = DEFAULT_WINDOW_S
    if spec.HasField("completion_window"):
        window_s = spec.completion_window.ToMilliseconds() / 1000
        if not MIN_WINDOW_S <= window_s <= MAX_WINDOW_S:
            faults.append(FieldViolation("spec.completion_window", f"must be {MIN_WINDOW_S:.0f} s to {MAX_WINDOW_S:.0f} s"))
    if faults:
        raise FaultError(invalid_argument("INVALID_JOB", *faults))
    return window_s


def check_id(field: str, value: str) -> str:
    """Return a job or ticket id that is not empty."""
    if not value:
        raise FaultError(invalid_argument("FIELD_REQUIRED", FieldViolation(field, "is required")))
    return value


def check_page_size(page_size: int) -> int:
    """Return the rows of a page."""
    if page_size > MAX_PAGE_SIZE:
        raise FaultError(invalid_argument("INVALID_PAGE_SIZE", FieldViolation("page_size", f"must be at most {MAX_PAGE_SIZE}")))
    return page_size or DEFAULT_PAGE_SIZE


def result_form(line_format: int, *, of_job: int) -> ResultForm:
    """Return the form to write results in: as asked, else as the job was written."""
    chosen = line_format or of_job
    return ResultForm.OPENAI if chosen == batch_pb2.LINE_FORMAT_OPENAI else ResultForm.TWINLANE


def page_token(created_at_s: float, job_id: str) -> str:
    """Return the token of the page behind a job."""
    return base64.urlsafe_b64encode(struct.pack(">d", created_at_s) + job_id.encode()).decode()


def read_page_token(token: str) -> tuple[float, str] | None:
    """Return what `page_token` was given; None for the first page."""
    if not token:
        return None
    try:
        raw = base64.urlsafe_b64decode(token)
        return struct.unpack(">d", raw[:8])[0], raw[8:].decode()
    except (binascii.Error, struct.error, ValueError):
        raise FaultError(
            invalid_argument("INVALID_PAGE_TOKEN", FieldViolation("page_token", "is not one that this service gave"))
        ) from None
