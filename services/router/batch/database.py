"""The ledger's database: connections, transactions off the event loop, migrations."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from services.router.batch.domain import StoreUnavailableError

# SQLite has one writer at a time; more threads would only wait for its lock.
_SQLITE_THREADS = 1
_SERVER_THREADS = 4
# Another process's writer (a second router, a backup) is waited for this long before the write is refused.
_SQLITE_BUSY_TIMEOUT_MS = 5_000

ResultT = TypeVar("ResultT")


class Database:
    """Runs transactions in threads of its own, in the order given on SQLite."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        if self.is_sqlite and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        threads = _SQLITE_THREADS if self.is_sqlite else _SERVER_THREADS
        self._engine = create_engine(url, pool_size=threads, max_overflow=0, pool_pre_ping=not self.is_sqlite)
        if self.is_sqlite:
            _prepare_sqlite(self._engine)
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ledger")

    async def open(self) -> None:
        """Bring the schema up to date. Raises StoreUnavailableError."""
        await self.run(self._migrate)

    async def run(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Do `work` in one transaction; it is durable when this returns. Raises StoreUnavailableError where the database
        cannot be used now; then nothing of it holds."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._transaction, work)

    async def close(self) -> None:
        """End the connections and threads, after what has been started."""
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()

    def _transaction(self, work: Callable[[Connection], ResultT]) -> ResultT:
        try:
            with self._engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            raise StoreUnavailableError(f"ledger: {error.orig}") from error
        except SQLAlchemyError as error:
            raise StoreUnavailableError(f"ledger: {error}") from error

    def _migrate(self, connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _prepare_sqlite(engine: Engine) -> None:
    """Write-ahead log with full sync; transactions begin as writers, so that none fails half-way on a lock upgrade."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # the driver's own BEGINs are off; ours below
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute(f"PRAGMA busy_timeout = {_SQLITE_BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
