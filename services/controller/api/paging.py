"""Page sizes and tokens of ListDecisions."""

from twinlane.controller.v1 import admin_pb2

from services.controller.api.faults import InvalidRequestError, RequestFault, refuse
from services.controller.journal.store import DecisionFilter

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1_000
# A token is the number of the last row that was sent, behind this mark.
_TOKEN_PREFIX = "before-"  # noqa: S105 - a mark, no secret
_MAX_SEQ_DIGITS = 18


def page_size(request: admin_pb2.ListDecisionsRequest) -> int:
    """Return the rows wanted. Raises InvalidRequestError where they are out of range."""
    size = request.page_size or DEFAULT_PAGE_SIZE
    words = f"{size} is over {MAX_PAGE_SIZE}"
    refuse([RequestFault("INVALID_PAGE_SIZE", "page_size", words) if size > MAX_PAGE_SIZE else None])
    return size


def page_filter(request: admin_pb2.ListDecisionsRequest) -> DecisionFilter:
    """Return which decisions are wanted. Raises InvalidRequestError for a token that no page gave."""
    return DecisionFilter(
        engine_id=request.engine_id, changes_only=request.changes_only, before_seq=_read_token(request.page_token)
    )


def page_token(seq: int) -> str:
    """Return the token of the page after the row `seq`."""
    return f"{_TOKEN_PREFIX}{seq}"


def _read_token(token: str) -> int | None:
    if not token:
        return None
    digits = token.removeprefix(_TOKEN_PREFIX)
    if not token.startswith(_TOKEN_PREFIX) or not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_SEQ_DIGITS:
        raise InvalidRequestError([RequestFault("INVALID_PAGE_TOKEN", "page_token", f"{token[:80]!r} is not from a page")])
    return int(digits)
