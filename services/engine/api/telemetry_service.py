"""TelemetryService: the newest reading for each reader, never a queue of old ones."""

from twinlane.engine.v1 import telemetry_pb2, telemetry_pb2_grpc

from libs.core.clock import Clock
from libs.rpc.boundary import Context
from services.engine.api.wire import snapshot_message
from services.engine.policy.watch import clamp_interval, is_due
from services.engine.serving.telemetry import Fingerprint, Telemetry


class TelemetryService(telemetry_pb2_grpc.TelemetryServiceServicer):
    """Streams readings until the reader goes or the engine stops."""

    def __init__(self, telemetry: Telemetry, *, clock: Clock) -> None:
        self._telemetry = telemetry
        self._clock = clock

    async def Watch(self, request: telemetry_pb2.WatchRequest, context: Context) -> None:  # type: ignore[override]
        """Send a reading at once, then as `is_due` says. A reading is taken when its writing begins: a reader that held the
        last one up gets the newest."""
        asked_s = request.min_interval.seconds + request.min_interval.nanos / 1e9 if request.HasField("min_interval") else None
        interval_s = clamp_interval(asked_s)
        while not self._telemetry.closed:
            seen, sent_at_s = self._telemetry.fingerprint(), self._clock.monotonic_s()
            await context.write(telemetry_pb2.WatchResponse(snapshot=snapshot_message(self._telemetry.read())))
            await self._telemetry.rest(interval_s)
            while self._holds_back(seen, sent_at_s, interval_s):
                await self._telemetry.rest(interval_s)

    def _holds_back(self, seen: Fingerprint, sent_at_s: float, interval_s: float) -> bool:
        changed = self._telemetry.fingerprint() != seen
        since_last_s = self._clock.monotonic_s() - sent_at_s
        return not self._telemetry.closed and not is_due(changed=changed, since_last_s=since_last_s, interval_s=interval_s)
