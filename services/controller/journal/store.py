"""The journal in a database: blocking calls, each a transaction of its own."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Engine, Table, create_engine, delete, event, insert, make_url, select
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import SQLAlchemyError

from services.controller.core.memory import EngineMemory
from services.controller.core.record import DecisionRecord
from services.controller.core.settings import StepSettings
from services.controller.domain import Override, Pause
from services.controller.journal.schema import DECISIONS, MEMORIES, METADATA, ORDERS, OVERRIDES, PAUSES, TERMS

# How long a call waits for another process that holds the database.
BUSY_TIMEOUT_S = 2.0
_SECONDS_PER_DAY = 86_400
_PAUSE_ID = 1

_RECORD = TypeAdapter(DecisionRecord)
_MEMORY = TypeAdapter(EngineMemory)
_OVERRIDE = TypeAdapter(Override)
_PAUSE = TypeAdapter(Pause)
_SETTINGS = TypeAdapter(StepSettings)


# What a call of the store may raise: a new connection fails with the driver's own error.
JOURNAL_ERRORS = (SQLAlchemyError, sqlite3.Error)


class JournalOpenError(Exception):
    """The journal cannot be opened at start; the message names its URL."""


@dataclass(frozen=True, kw_only=True)
class DecisionFilter:
    """Which decisions: of one engine ("" for all), changes only, older than a row (None for the newest on)."""

    engine_id: str = ""
    changes_only: bool = False
    before_seq: int | None = None


@dataclass(frozen=True, kw_only=True)
class StoredDecision:
    """A decision and its row number; later rows have higher numbers."""

    seq: int
    record: DecisionRecord


@dataclass(frozen=True, kw_only=True)
class OrderEntry:
    """An operator's order, for the audit: `kind` is PAUSE, RESUME, SET_OVERRIDE or CLEAR_OVERRIDE."""

    at_s: float
    kind: str
    reason: str
    engine_id: str = ""


class JournalStore:
    """Opens the database, makes its folder and tables. Raises JournalOpenError; methods raise JOURNAL_ERRORS."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = _open(url)

    def begin_term(self, *, controller_id: str, settings: StepSettings, now_s: float) -> int:
        """Return a new term, higher than any before. Raises JournalOpenError where it cannot be written."""
        row = {"controller_id": controller_id, "started_at_s": now_s, "settings": _SETTINGS.dump_json(settings).decode()}
        try:
            with self._engine.begin() as connection:
                return int(connection.execute(insert(TERMS).values(**row).returning(TERMS.c.term)).scalar_one())
        except JOURNAL_ERRORS as error:
            self.close()
            raise _open_error(self._url, error) from error

    def settings_of(self, term: int) -> StepSettings:
        """Return the settings of a term. Raises NoResultFound for an unknown one."""
        with self._engine.connect() as connection:
            text = connection.execute(select(TERMS.c.settings).where(TERMS.c.term == term)).scalar_one()
        return _SETTINGS.validate_json(text)

    def add_decisions(self, records: Sequence[DecisionRecord], memories: Mapping[str, EngineMemory]) -> None:
        """Add decisions, and put what is remembered after them."""
        with self._engine.begin() as connection:
            for record in records:
                # An engine that returns after it was forgotten gets an override under the name it was first carried out by.
                connection.execute(upsert(DECISIONS).values(**_decision_row(record)).on_conflict_do_nothing())
                engine_id = record.decision.engine_id
                if engine_id in memories:
                    memory = _MEMORY.dump_json(memories[engine_id]).decode()
                    row = {"engine_id": engine_id, "saved_at_s": record.decided_at_s, "memory": memory}
                    _put(connection, MEMORIES, "engine_id", row)

    def decisions(self, wanted: DecisionFilter, *, limit: int) -> tuple[StoredDecision, ...]:
        """Return up to `limit` decisions, newest first."""
        query = select(DECISIONS.c.seq, DECISIONS.c.record).order_by(DECISIONS.c.seq.desc()).limit(limit)
        if wanted.engine_id:
            query = query.where(DECISIONS.c.engine_id == wanted.engine_id)
        if wanted.changes_only:
            query = query.where(DECISIONS.c.is_change)
        if wanted.before_seq is not None:
            query = query.where(DECISIONS.c.seq < wanted.before_seq)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return tuple(StoredDecision(seq=seq, record=_RECORD.validate_json(text)) for seq, text in rows)

    def memories(self) -> dict[str, EngineMemory]:
        """Return what is remembered of each engine."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(MEMORIES.c.engine_id, MEMORIES.c.memory)).all()
        return {engine_id: _MEMORY.validate_json(text) for engine_id, text in rows}

    def pause(self) -> Pause:
        """Return the pause in force."""
        with self._engine.connect() as connection:
            text = connection.execute(select(PAUSES.c.pause)).scalar_one_or_none()
        return Pause() if text is None else _PAUSE.validate_json(text)

    def put_pause(self, pause: Pause, entry: OrderEntry) -> None:
        """Put the pause, and its order into the audit."""
        with self._engine.begin() as connection:
            _put(connection, PAUSES, "id", {"id": _PAUSE_ID, "pause": _PAUSE.dump_json(pause).decode()})
            _audit(connection, entry, detail="")

    def overrides(self) -> tuple[Override, ...]:
        """Return stored overrides, expired ones too."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(OVERRIDES.c.override)).scalars().all()
        return tuple(_OVERRIDE.validate_json(text) for text in rows)

    def put_override(self, override: Override, entry: OrderEntry) -> None:
        """Put an override in place of the engine's earlier one, and its order into the audit."""
        text = _OVERRIDE.dump_json(override).decode()
        with self._engine.begin() as connection:
            _put(connection, OVERRIDES, "engine_id", {"engine_id": override.engine_id, "override": text})
            _audit(connection, entry, detail=text)

    def drop_override(self, engine_id: str, entry: OrderEntry | None) -> None:
        """Remove an override; without an entry it expired by itself and the audit stays as it is."""
        with self._engine.begin() as connection:
            connection.execute(delete(OVERRIDES).where(OVERRIDES.c.engine_id == engine_id))
            if entry is not None:
                _audit(connection, entry, detail="")

    def prune(self, *, keep_days: int, now_s: float) -> None:
        """Remove what is older than `keep_days`."""
        oldest_s = now_s - keep_days * _SECONDS_PER_DAY
        with self._engine.begin() as connection:
            connection.execute(delete(DECISIONS).where(DECISIONS.c.decided_at_s < oldest_s))
            connection.execute(delete(ORDERS).where(ORDERS.c.at_s < oldest_s))
            connection.execute(delete(MEMORIES).where(MEMORIES.c.saved_at_s < oldest_s))

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def _open(url: str) -> Engine:
    file = make_url(url).database or ""
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _configure)
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        METADATA.create_all(engine)
    except (OSError, *JOURNAL_ERRORS) as error:
        engine.dispose()
        raise _open_error(url, error) from error
    return engine


def _open_error(url: str, error: Exception) -> JournalOpenError:
    reason = error.strerror if isinstance(error, OSError) else getattr(error, "orig", error)
    return JournalOpenError(f"journal.url: {url} cannot be used: {reason}")


def _configure(connection: Any, _record: Any) -> None:
    """Readers do not block the writer, and a killed process loses nothing that was committed."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _put(connection: Connection, table: Table, key: str, row: Mapping[str, Any]) -> None:
    connection.execute(upsert(table).values(**row).on_conflict_do_update(index_elements=[key], set_=dict(row)))


def _audit(connection: Connection, entry: OrderEntry, *, detail: str) -> None:
    row = {"at_s": entry.at_s, "kind": entry.kind, "engine_id": entry.engine_id, "reason": entry.reason, "detail": detail}
    connection.execute(insert(ORDERS).values(**row))


def _decision_row(record: DecisionRecord) -> dict[str, Any]:
    return {
        "decision_id": record.decision_id,
        "decided_at_s": record.decided_at_s,
        "engine_id": record.decision.engine_id,
        "action": record.decision.action.name,
        "reason": record.decision.reason.name,
        "result": record.result.name,
        "is_change": record.is_change,
        "record": _RECORD.dump_json(record).decode(),
    }
