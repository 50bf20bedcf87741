"""One submission: lines are checked and stored as they stream in, and become a job all at once at the end."""

import hashlib
from collections.abc import Callable

from sqlalchemy import Connection

from services.router.batch import jobs
from services.router.batch.database import Database
from services.router.batch.domain import BlobRef, JobView, NewItem, NewJob, StoreUnavailableError
from services.router.batch.lines import MAX_LINE_BYTES, LineError, LineSplitter, ParsedLine, RawLine, parse_line
from services.router.batch.store import BlobStore
from services.router.policy.batch import prefix_group

# Lines are stored in objects of about this size: few enough requests to a store, little enough memory.
_SEGMENT_BYTES = 4 * 1024 * 1024
# More faults than this help nobody.
MAX_FAULTS = 100

Check = Callable[[ParsedLine], None]


class JobFaultsError(Exception):
    """Lines are faulty; nothing was accepted. Each fault has its path ("lines[12].custom_id")."""

    def __init__(self, faults: tuple[tuple[str, str], ...]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class Submission:
    """Takes one job's lines. Call `feed` for each piece, then `finish` once, or `abandon` once.

    `check` raises LineError for a request that the mesh would refuse. Memory is bounded by one line, one segment and the
    digests of the custom ids.
    """

    def __init__(self, *, job: NewJob, database: Database, store: BlobStore, check: Check) -> None:
        self._job = job
        self._database = database
        self._store = store
        self._check = check
        self._splitter = LineSplitter()
        self._digest = hashlib.sha256()
        self._faults: list[tuple[str, str]] = []
        self._custom_ids: set[bytes] = set()
        self._segment = bytearray()
        self._segment_count = 0
        self._staged: list[NewItem] = []
        self._total = 0

    async def start(self) -> None:
        """Stage the job. Raises StoreUnavailableError."""
        await self._database.run(lambda connection: jobs.stage_job(connection, self._job))

    async def feed(self, piece: bytes) -> None:
        """Take the next piece of the lines. Raises StoreUnavailableError."""
        self._digest.update(piece)
        for line in self._splitter.feed(piece):
            self._take(line)
        if len(self._segment) >= _SEGMENT_BYTES:
            await self._flush()

    async def finish(self) -> tuple[JobView, bool]:
        """Make the job real; returns it and whether the same submission had been made before.

        Raises JobFaultsError, IdempotencyConflictError or StoreUnavailableError; then nothing was accepted.
        """
        try:
            for line in self._splitter.finish():
                self._take(line)
            if self._total == 0 and not self._faults:
                self._faults.append(("lines", "there is no line"))
            if self._faults:
                raise JobFaultsError(tuple(self._faults))
            await self._flush()
            view, existed = await self._database.run(self._publish)
        except BaseException:
            await self.abandon()
            raise
        if existed:
            await self.abandon()
        return view, existed

    async def abandon(self) -> None:
        """Remove what was staged. What cannot be removed now is collected later as never published."""
        keys = [self._segment_key(number) for number in range(self._segment_count)]
        try:
            await self._database.run(lambda connection: jobs.discard_job(connection, self._job.job_id))
            await self._store.delete(keys)
        except StoreUnavailableError:
            return

    def _publish(self, connection: Connection) -> tuple[JobView, bool]:
        digest = hashlib.sha256(f"{self._job.content_digest}{self._digest.hexdigest()}".encode()).hexdigest()
        job = NewJob(**{**self._job.__dict__, "content_digest": digest})
        return jobs.publish_job(connection, job, total=self._total)

    def _take(self, line: RawLine) -> None:
        if len(self._faults) >= MAX_FAULTS:
            return
        try:
            self._stage(line)
        except LineError as error:
            place = f"lines[{line.number}]"
            self._faults.append((f"{place}.{error.path}" if error.path else place, error.description))

    def _stage(self, line: RawLine) -> None:
        if line.content is None:
            raise LineError("", f"is over {MAX_LINE_BYTES} bytes")
        parsed = parse_line(line.content)
        self._check(parsed)
        digest = hashlib.blake2b(parsed.custom_id.encode(), digest_size=16).digest()
        if digest in self._custom_ids:
            raise LineError("custom_id", f"{parsed.custom_id!r} was used before")
        self._custom_ids.add(digest)
        payload = BlobRef(key=self._segment_key(self._segment_count), offset=len(self._segment), length=len(line.content))
        self._segment += line.content + b"\n"
        group = prefix_group(parsed.request.model, leading_text(parsed))
        self._staged.append(NewItem(index=self._total, custom_id=parsed.custom_id, group=group, payload=payload))
        self._total += 1

    async def _flush(self) -> None:
        if not self._staged:
            return
        items, self._staged = self._staged, []
        content, self._segment = bytes(self._segment), bytearray()
        key = self._segment_key(self._segment_count)
        self._segment_count += 1
        await self._store.write(key, content)
        await self._database.run(lambda connection: jobs.stage_items(connection, self._job.job_id, items))

    def _segment_key(self, number: int) -> str:
        return f"jobs/{self._job.job_id}/lines-{number:06d}.jsonl"


def leading_text(line: ParsedLine) -> str:
    """Return what a prompt begins with, as far as grouping looks."""
    request = line.request
    match request.WhichOneof("input"):
        case "prompt":
            return request.prompt
        case "chat":
            return "\0".join(message.content for message in request.chat.messages)
        case _:
            return ",".join(str(token) for token in request.token_ids.ids[:512])
