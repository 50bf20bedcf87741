"""The journal beside the loop, when its database stands still or a write is broken."""

import asyncio
from pathlib import Path
from threading import Event

import pytest

from libs.core.clock import ManualClock
from services.controller.journal.store import JournalStore
from services.controller.journal.writer import Journal, JournalEvents


class _Counts:
    """What the journal reported."""

    def __init__(self) -> None:
        self.failed = 0
        self.dropped = 0

    def journal(self, folder: Path) -> Journal:
        store = JournalStore(f"sqlite:///{folder}/controller.db")
        events = JournalEvents(failed=self._fail, dropped=self._drop)
        journal = Journal(store=store, clock=ManualClock(), keep_days=1, events=events)
        journal.start()
        return journal

    def _fail(self) -> None:
        self.failed += 1

    def _drop(self) -> None:
        self.dropped += 1


def test_write_database_stands_still_drops_the_newest_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.controller.journal.writer.QUEUE_LIMIT", 1)

    async def scenario() -> tuple[_Counts, list[bool]]:
        counts, entered, released = _Counts(), Event(), Event()
        journal = counts.journal(tmp_path)

        def stand_still(_store: JournalStore) -> None:
            entered.set()
            released.wait()

        first = journal.write(stand_still)
        await asyncio.to_thread(entered.wait)
        waiting, dropped = journal.write(lambda _store: None), journal.write(lambda _store: None)
        released.set()
        written = [await first, await waiting, await dropped]
        await journal.stop()
        return counts, written

    counts, written = asyncio.run(scenario())
    assert (written, counts.dropped, counts.failed) == ([True, True, False], 1, 0)


def test_write_broken_write_is_counted_and_the_next_one_is_written(tmp_path: Path) -> None:
    async def scenario() -> tuple[_Counts, list[bool]]:
        counts = _Counts()
        journal = counts.journal(tmp_path)

        def break_down(_store: JournalStore) -> None:
            raise RuntimeError("broken")

        written = [await journal.write_through(break_down), await journal.write_through(lambda _store: None)]
        await journal.stop()
        return counts, written

    counts, written = asyncio.run(scenario())
    assert (written, counts.failed) == ([False, True], 1)


def test_stop_writes_what_is_queued(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        journal, written = _Counts().journal(tmp_path), list[int]()
        for number in range(20):
            journal.write(lambda _store, number=number: written.append(number))  # type: ignore[misc]  # binds the number
        await journal.stop()
        return written

    assert asyncio.run(scenario()) == list(range(20))
