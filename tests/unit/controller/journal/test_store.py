"""The journal's database."""

import sqlite3
from pathlib import Path

import pytest

from services.controller.core.record import DecisionRecord
from services.controller.core.step import decide
from services.controller.domain import ActuationResult, Pause
from services.controller.journal.store import DecisionFilter, JournalOpenError, JournalStore, OrderEntry
from tests.unit.controller.samples import SETTINGS, inputs, override, reading

DAY_S = 86_400.0


def _store(folder: Path) -> JournalStore:
    return JournalStore(f"sqlite:///{folder}/deep/controller.db")


def _record(name: str, *, engine_id: str = "batch-1", holds: bool = False, at_s: float = 0.0) -> DecisionRecord:
    given = inputs(reading=reading(engine_id=engine_id, p99_ms=50.0), paused=holds, override=override(max_batched_tokens=64))
    return DecisionRecord(
        decision_id=name,
        term=1,
        decided_at_s=at_s,
        decision=decide(given, SETTINGS).decision,
        result=ActuationResult.NONE,
        error="",
        inputs=given,
    )


def test_begin_term_each_start_is_higher(tmp_path: Path) -> None:
    terms = []
    for _ in range(3):
        store = _store(tmp_path)
        terms.append(store.begin_term(controller_id="c", settings=SETTINGS, now_s=1.0))
        assert store.settings_of(terms[-1]) == SETTINGS
        store.close()
    assert terms == [1, 2, 3]


def test_decisions_stored_are_read_back_whole_and_replay_to_the_same(tmp_path: Path) -> None:
    store = _store(tmp_path)
    term = store.begin_term(controller_id="c", settings=SETTINGS, now_s=1.0)
    written = _record("d1")
    store.add_decisions([written], {"batch-1": written.inputs.memory})
    (read,) = store.decisions(DecisionFilter(), limit=10)
    assert read.record == written
    assert decide(read.record.inputs, store.settings_of(term)).decision == written.decision
    assert store.memories() == {"batch-1": written.inputs.memory}
    store.close()


def test_decisions_filters_and_order(tmp_path: Path) -> None:
    store = _store(tmp_path)
    steady = inputs(paused=True)
    hold = DecisionRecord(
        decision_id="d3",
        term=1,
        decided_at_s=0.0,
        decision=decide(steady, SETTINGS).decision,
        result=ActuationResult.NONE,
        error="",
        inputs=steady,
    )
    store.add_decisions([_record("d1"), _record("d2", engine_id="batch-2"), hold], {})

    def names(wanted: DecisionFilter) -> list[str]:
        return [stored.record.decision_id for stored in store.decisions(wanted, limit=10)]

    assert names(DecisionFilter()) == ["d3", "d2", "d1"]
    assert names(DecisionFilter(engine_id="batch-1")) == ["d3", "d1"]
    assert names(DecisionFilter(changes_only=True)) == ["d2", "d1"]
    assert names(DecisionFilter(before_seq=2)) == ["d1"]
    store.close()


def test_orders_stored_survive_reopening(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.pause() == Pause()
    entry = OrderEntry(at_s=1.0, kind="PAUSE", reason="night")
    store.put_pause(Pause(paused=True, reason="night"), entry)
    store.put_override(override(max_active_sequences=4), entry)
    store.put_override(override(max_active_sequences=8), entry)
    store.close()
    store = _store(tmp_path)
    assert store.pause() == Pause(paused=True, reason="night")
    assert store.overrides() == (override(max_active_sequences=8),)
    store.drop_override("batch-1", None)
    assert store.overrides() == ()
    store.close()


def test_add_decisions_known_name_keeps_the_first_and_the_rest(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.add_decisions([_record("d1", at_s=1.0)], {})
    store.add_decisions([_record("d1", at_s=2.0), _record("d2", at_s=2.0)], {})
    found = [(stored.record.decision_id, stored.record.decided_at_s) for stored in store.decisions(DecisionFilter(), limit=9)]
    assert found == [("d2", 2.0), ("d1", 1.0)]
    store.close()


def test_prune_keeps_what_is_young_enough(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.add_decisions([_record("old", at_s=0.0), _record("young", at_s=DAY_S)], {})
    store.prune(keep_days=1, now_s=1.5 * DAY_S)
    assert [stored.record.decision_id for stored in store.decisions(DecisionFilter(), limit=10)] == ["young"]
    store.close()


def test_open_file_that_is_no_database_is_refused_with_its_url(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, though long enough to be looked at closely by the driver" * 20)
    with pytest.raises(JournalOpenError, match=r"journal\.url: sqlite:///.*x\.db cannot be used: file is not a database"):
        JournalStore(f"sqlite:///{tmp_path}/x.db")


def test_begin_term_database_locked_is_refused_with_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.controller.journal.store.BUSY_TIMEOUT_S", 0.0)
    store = _store(tmp_path)
    locker = sqlite3.connect(tmp_path / "deep" / "controller.db")
    locker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(JournalOpenError, match="database is locked"):
        store.begin_term(controller_id="c", settings=SETTINGS, now_s=1.0)
    locker.close()
