"""Cause to status, for every error of the controller's services.

| cause | code | reason |
|---|---|---|
| bad request | INVALID_ARGUMENT | the field's; BadRequest names each |
| older epoch of an engine | ABORTED | STALE_EPOCH |
| engine not registered | NOT_FOUND | ENGINE_UNKNOWN |
| journal cannot be read | UNAVAILABLE | JOURNAL_UNAVAILABLE |
"""

import grpc

from libs.rpc.fault import Fault, invalid_argument
from services.controller.api.faults import InvalidRequestError
from services.controller.journal.store import JOURNAL_ERRORS
from services.controller.registry import StaleEpochError, UnknownEngineError

# A database that another process holds is free again within a moment.
_JOURNAL_RETRY_S = 1.0


def translate(error: Exception) -> Fault | None:
    """Return the fault of an error; None for one that only a defect can cause."""
    match error:
        case InvalidRequestError():
            return invalid_argument(error.reason, *error.violations)
        case StaleEpochError():
            numbers = {"engine_id": error.engine_id, "epoch": str(error.epoch), "newest_epoch": str(error.newest)}
            return Fault(code=grpc.StatusCode.ABORTED, reason="STALE_EPOCH", message=str(error), metadata=numbers)
        case UnknownEngineError():
            return Fault(
                code=grpc.StatusCode.NOT_FOUND,
                reason="ENGINE_UNKNOWN",
                message=f"engine_id: {error}",
                metadata={"engine_id": error.engine_id},
            )
        case _ if isinstance(error, JOURNAL_ERRORS):
            return Fault(
                code=grpc.StatusCode.UNAVAILABLE,
                reason="JOURNAL_UNAVAILABLE",
                message="the journal cannot be read now",
                retry_after_s=_JOURNAL_RETRY_S,
            )
        case _:
            return None
