"""The journal beside an event loop: one writer, in a thread, that never makes the loop wait and never stops control."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import structlog

from libs.core.clock import Clock
from services.controller.journal.store import JOURNAL_ERRORS, JournalStore
from services.controller.tasks import end_tasks, start_task

_log = structlog.get_logger(__name__)

ResultT = TypeVar("ResultT")
Write: TypeAlias = Callable[[JournalStore], None]

# A database that stands still for this many writes loses the newer ones; each is a few kilobytes.
QUEUE_LIMIT = 1_000
# How long an operator's call waits for its order to be on disk.
ORDER_WAIT_S = 2.5
# How long a stop waits for what is queued.
STOP_WAIT_S = 3.0
PRUNE_INTERVAL_S = 3_600.0


@dataclass(frozen=True, kw_only=True)
class JournalEvents:
    """Called from the event loop: a write failed, a write was dropped because too many wait."""

    failed: Callable[[], None]
    dropped: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class _Queued:
    write: Write
    done: asyncio.Future[bool]


class Journal:
    """Owns the store, its writer task and its two threads (one writes, one reads)."""

    def __init__(self, *, store: JournalStore, clock: Clock, keep_days: int, events: JournalEvents) -> None:
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self._events = events
        self._queue: asyncio.Queue[_Queued] = asyncio.Queue(maxsize=QUEUE_LIMIT)
        self._writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal-write")
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal-read")
        self._pruned_at_s: float | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the writer; needs a running loop."""
        self._task = start_task(self._run(), name="journal writer")

    def write(self, write: Write) -> asyncio.Future[bool]:
        """Queue a write and return at once. The future tells whether it was written; nobody has to wait for it."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Queued(write=write, done=done))
        except asyncio.QueueFull:
            self._events.dropped()
            _log.error("journal is behind; a write was dropped", queued=QUEUE_LIMIT)
            done.set_result(False)
        return done

    async def write_through(self, write: Write) -> bool:
        """Write and wait for it, up to ORDER_WAIT_S; False where it is not known to be on disk."""
        done = self.write(write)
        finished, _ = await asyncio.wait({done}, timeout=ORDER_WAIT_S)
        return bool(finished) and done.result()

    async def read(self, read: Callable[[JournalStore], ResultT]) -> ResultT:
        """Read in the reading thread. Raises JOURNAL_ERRORS."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, read, self._store)

    async def stop(self) -> None:
        """Write what is queued, for up to STOP_WAIT_S, then close."""
        try:
            async with asyncio.timeout(STOP_WAIT_S):
                await self._queue.join()
        except TimeoutError:
            _log.error("journal was closed with writes waiting", waiting=self._queue.qsize())
        if self._task is not None:
            await end_tasks(self._task)
        for threads in (self._writing, self._reading):
            threads.shutdown(wait=True, cancel_futures=True)
        self._store.close()

    async def _run(self) -> None:
        while True:
            queued = await self._queue.get()
            try:
                written = await self._try(queued.write)
                if not queued.done.done():
                    queued.done.set_result(written)
                await self._prune_if_due()
            finally:
                self._queue.task_done()

    async def _try(self, write: Write) -> bool:
        try:
            await asyncio.get_running_loop().run_in_executor(self._writing, write, self._store)
        except Exception as error:
            self._events.failed()
            is_known = isinstance(error, JOURNAL_ERRORS)
            words = str(getattr(error, "orig", error))
            _log.error("journal write failed; control goes on", error=words, exc_info=None if is_known else error)
            return False
        return True

    async def _prune_if_due(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._pruned_at_s is None or now_s - self._pruned_at_s >= PRUNE_INTERVAL_S:
            self._pruned_at_s = now_s
            wall_s = self._clock.wall_s()
            await self._try(lambda store: store.prune(keep_days=self._keep_days, now_s=wall_s))
