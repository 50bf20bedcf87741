"""The batch lane of one router: ledger, store and runner, from start to stop."""

import asyncio
from collections.abc import Callable
from random import Random

import structlog
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import Clock
from libs.core.ids import IdSource
from libs.rpc.fault import Fault, FaultError
from services.router.batch import retention
from services.router.batch.database import Database
from services.router.batch.domain import StoreUnavailableError
from services.router.batch.lines import LineError, ParsedLine
from services.router.batch.runner import BatchRunner, Execute, RunnerSettings
from services.router.batch.store import BlobStore, open_store
from services.router.config import BatchConfig

_log = structlog.get_logger(__name__)

# Jobs of other routers are found by asking; those of this one wake the runner.
_POLL_INTERVAL_S = 1.0
_COLLECT_INTERVAL_S = 3600.0
_SECONDS_PER_DAY = 86_400.0

Translate = Callable[[Exception], Fault | None]


class BatchLane:
    """Opened, started once, stopped once."""

    def __init__(
        self,
        config: BatchConfig,
        *,
        router_id: str,
        execute: Execute,
        translate: Translate,
        clock: Clock,
        ids: IdSource,
        random: Random,
    ) -> None:
        self._config = config
        self._clock = clock
        self.database = Database(config.ledger)
        self.store: BlobStore = open_store(config.store)
        # A new holder each start: what a dead one held is never taken for one's own.
        holder = ids.next(router_id)
        self.runner = BatchRunner(
            settings=RunnerSettings(
                holder=holder,
                max_in_flight=config.max_in_flight,
                lease_s=config.lease_s,
                poll_interval_s=_POLL_INTERVAL_S,
                item_deadline_s=config.item_deadline_s,
            ),
            database=self.database,
            store=self.store,
            execute=_translated(execute, translate),
            clock=clock,
            random=random,
            next_result_key=lambda job_id: f"jobs/{job_id}/{ids.next('results')}.jsonl",
        )
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def open(self) -> None:
        """Bring the ledger up to date. Raises StoreUnavailableError."""
        await self.database.open()

    def start(self) -> None:
        """Begin to run items."""
        self._tasks = (
            asyncio.create_task(self.runner.run(), name="batch runner"),
            asyncio.create_task(self._collect(), name="batch retention"),
        )
        for task in self._tasks:
            task.add_done_callback(_log_end)

    async def stop(self) -> None:
        """Put running items back and close the ledger."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.database.close()

    async def _collect(self) -> None:
        """Remove what is past its retention, hourly."""
        keep_s = self._config.keep_days * _SECONDS_PER_DAY
        while True:
            try:
                removed = await retention.collect(database=self.database, store=self.store, clock=self._clock, keep_s=keep_s)
                orphans = await retention.collect_orphans(database=self.database, store=self.store, clock=self._clock)
                if removed or orphans:
                    _log.info("batch retention", jobs=removed, orphans=orphans)
            except StoreUnavailableError as error:
                _log.warning("batch retention must wait", error=str(error))
            await asyncio.sleep(_COLLECT_INTERVAL_S)


def line_check(check: Callable[[inference_pb2.CompleteRequest], None]) -> Callable[[ParsedLine], None]:
    """Return a check of lines that refuses what the router would refuse of a single call, with the place in the line."""

    def check_line(line: ParsedLine) -> None:
        try:
            check(line.request)
        except FaultError as error:
            first = error.fault.violations[0] if error.fault.violations else None
            place = "request" if first is None else f"request.{first.field}"
            raise LineError(place, error.fault.message if first is None else first.description) from None

    return check_line


def _translated(execute: Execute, translate: Translate) -> Execute:
    """Return the same with the router's own errors as faults, as a caller would get them."""

    async def run(request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float) -> inference_pb2.CompleteResponse:
        try:
            return await execute(request, tenant=tenant, deadline_s=deadline_s)
        except FaultError:
            raise
        except Exception as error:
            fault = translate(error)
            if fault is None:
                raise
            raise FaultError(fault) from error

    return run


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("a task of the batch lane ended", task=task.get_name(), exc_info=task.exception())
