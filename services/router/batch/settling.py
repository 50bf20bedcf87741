"""Group commit: many ended items become one results object and one ledger transaction."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from google.protobuf.json_format import MessageToDict
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import Clock
from services.router.batch import claims
from services.router.batch.database import Database
from services.router.batch.domain import BlobRef, Claim, Failure, PutBack, Settlement, StoreUnavailableError, Success
from services.router.batch.store import BlobStore

_log = structlog.get_logger(__name__)

# Ends of one commit at most: bounds the object and the transaction.
_COMMIT_ITEMS = 256
# A ledger or store that is away is tried again after this; the leases are renewed meanwhile.
_AGAIN_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that is not stored yet."""

    claim: Claim
    response: inference_pb2.CompleteResponse


Ending = Answer | Failure | PutBack


class Settler:
    """One task that owns all writing of results. `put` never waits; `drain` ends the task after the last one is durable."""

    def __init__(
        self,
        *,
        database: Database,
        store: BlobStore,
        clock: Clock,
        next_key: Callable[[str], str],
        on_settled: Callable[[], None],
    ) -> None:
        self._database = database
        self._store = store
        self._clock = clock
        self._next_key = next_key
        self._on_settled = on_settled
        self._queue: asyncio.Queue[Ending | None] = asyncio.Queue()

    def put(self, ending: Ending) -> None:
        """Hand over the end of an item."""
        self._queue.put_nowait(ending)

    def drain(self) -> None:
        """Let `run` return after everything handed over so far."""
        self._queue.put_nowait(None)

    async def run(self) -> None:
        """Commit until drained."""
        draining = False
        while not draining:
            endings = [await self._queue.get()]
            while not self._queue.empty() and len(endings) < _COMMIT_ITEMS:
                endings.append(self._queue.get_nowait())
            draining = None in endings
            await self._commit([ending for ending in endings if ending is not None])

    async def _commit(self, endings: Sequence[Ending]) -> None:
        while endings:
            try:
                await self._try_commit(endings)
            except StoreUnavailableError as error:
                _log.warning("results cannot be written, trying again", error=str(error), items=len(endings))
                await asyncio.sleep(_AGAIN_S)
                continue
            self._on_settled()
            return

    async def _try_commit(self, endings: Sequence[Ending]) -> None:
        settlements = await self._store_answers(endings)
        now_s = self._clock.wall_s()
        stale = await self._database.run(lambda connection: claims.settle(connection, settlements, now_s=now_s))
        if stale:
            _log.info("results dropped: another holder has the items", items=len(stale))

    async def _store_answers(self, endings: Sequence[Ending]) -> list[Settlement]:
        """Write one object per job with all its answers, and return settlements that point into it."""
        settlements: list[Settlement] = [ending for ending in endings if not isinstance(ending, Answer)]
        answers = [ending for ending in endings if isinstance(ending, Answer)]
        for job_id in sorted({answer.claim.job_id for answer in answers}):
            key = self._next_key(job_id)
            content = bytearray()
            for answer in answers:
                if answer.claim.job_id == job_id:
                    settlements.append(_append(content, key, answer))
            await self._store.write(key, bytes(content))
        return settlements


def _append(content: bytearray, key: str, answer: Answer) -> Success:
    line = result_line(answer.claim.custom_id, answer.response)
    ref = BlobRef(key=key, offset=len(content), length=len(line))
    content += line + b"\n"
    usage = answer.response.usage
    return Success(claim=answer.claim, result=ref, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)


def result_line(custom_id: str, response: inference_pb2.CompleteResponse) -> bytes:
    """Return the line of the results object for an answer, without its end of line."""
    fields: dict[str, Any] = MessageToDict(response, preserving_proto_field_name=True)
    return json.dumps({"custom_id": custom_id, "response": fields}, ensure_ascii=False, separators=(",", ":")).encode()
