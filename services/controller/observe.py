"""Reading of engines: one telemetry stream each, the latest snapshot kept with the time of its receipt."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import grpc
import structlog
from google.protobuf import duration_pb2
from twinlane.engine.v1 import telemetry_pb2, telemetry_pb2_grpc

from libs.core.clock import Clock
from libs.rpc.channel import open_channel
from services.controller.tasks import end_tasks, start_task

_log = structlog.get_logger(__name__)

MIN_BACKOFF_S = 0.05
MAX_BACKOFF_S = 1.0
# Silence for longer than three heartbeats is a dead stream, though its connection may still look alive.
SILENCE_LIMIT_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """One start of an engine, and where to reach it."""

    engine_id: str
    epoch: int
    address: str


@dataclass(frozen=True, kw_only=True)
class Received:
    """A snapshot and when it was received (monotonic)."""

    snapshot: telemetry_pb2.EngineSnapshot
    at_s: float


@dataclass(frozen=True, kw_only=True)
class ObserverOptions:
    """How streams are read: least time between snapshots, and the largest message."""

    min_interval_ms: int
    max_message_bytes: int


class Observer:
    """Owns the streams and what came out of them. Readings of an engine that is no longer followed are forgotten."""

    def __init__(self, *, clock: Clock, options: ObserverOptions) -> None:
        self._clock = clock
        self._options = options
        self._listeners: list[Callable[[telemetry_pb2.EngineSnapshot], None]] = []
        self._tasks: dict[Target, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._received: dict[str, Received] = {}

    def listen(self, listener: Callable[[telemetry_pb2.EngineSnapshot], None]) -> None:
        """Call `listener` with each snapshot."""
        self._listeners.append(listener)

    def follow(self, targets: Iterable[Target]) -> None:
        """Read these and no others; streams of targets that stay go on undisturbed."""
        wanted = set(targets)
        for target in self._tasks.keys() - wanted:
            self._drop(target)
        for target in wanted - self._tasks.keys():
            self._tasks[target] = start_task(self._read(target), name=f"telemetry of {target.engine_id}")

    def latest(self, engine_id: str, epoch: int) -> Received | None:
        """Return the newest snapshot of this epoch, or None before the first."""
        received = self._received.get(engine_id)
        return received if received is not None and received.snapshot.epoch == epoch else None

    async def stop(self) -> None:
        """End every stream."""
        self.follow(())
        await end_tasks(*self._ending)

    def _drop(self, target: Target) -> None:
        task = self._tasks.pop(target)
        self._received.pop(target.engine_id, None)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.cancel()

    async def _read(self, target: Target) -> None:
        backoff_s = MIN_BACKOFF_S
        async with open_channel(target.address, max_message_bytes=self._options.max_message_bytes) as channel:
            while True:
                heard = await self._read_once(target, channel)
                backoff_s = MIN_BACKOFF_S if heard else min(backoff_s * 2, MAX_BACKOFF_S)
                await asyncio.sleep(backoff_s)

    async def _read_once(self, target: Target, channel: grpc.aio.Channel) -> bool:
        """Read one stream to its end; return whether anything came."""
        heard = False
        interval = duration_pb2.Duration()
        interval.FromMilliseconds(self._options.min_interval_ms)
        call = telemetry_pb2_grpc.TelemetryServiceStub(channel).Watch(telemetry_pb2.WatchRequest(min_interval=interval))
        try:
            while True:
                async with asyncio.timeout(SILENCE_LIMIT_S):
                    response = await call.read()
                if not isinstance(response, telemetry_pb2.WatchResponse):
                    break
                heard = True
                self._take(target, response.snapshot)
        except TimeoutError:
            _log.warning("telemetry is silent", engine_id=target.engine_id, address=target.address)
        except grpc.aio.AioRpcError as error:
            _log.debug("telemetry ended", engine_id=target.engine_id, address=target.address, error=error.details())
        finally:
            call.cancel()
        return heard

    def _take(self, target: Target, snapshot: telemetry_pb2.EngineSnapshot) -> None:
        if snapshot.engine_id != target.engine_id or snapshot.epoch != target.epoch:
            return
        self._received[target.engine_id] = Received(snapshot=snapshot, at_s=self._clock.monotonic_s())
        for listener in self._listeners:
            listener(snapshot)
