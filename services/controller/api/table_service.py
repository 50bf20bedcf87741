"""EngineTableService: routers watch the engines."""

from collections import Counter

from twinlane.controller.v1 import engines_pb2, engines_pb2_grpc

from libs.rpc.boundary import Context
from services.controller.measures import ControllerMetrics
from services.controller.table import EngineTable

_UNNAMED = "(unnamed)"


class EngineTableService(engines_pb2_grpc.EngineTableServiceServicer):
    """Streams the table. Each message is made when the reader is ready for it, so a slow reader gets the newest only.
    The first comes when the table is open."""

    def __init__(self, *, table: EngineTable, load_interval_s: float, metrics: ControllerMetrics) -> None:
        self._table = table
        self._load_interval_s = load_interval_s
        self._metrics = metrics
        self._routers: Counter[str] = Counter()

    @property
    def router_ids(self) -> tuple[str, ...]:
        """Routers with an open stream, ordered by name."""
        return tuple(sorted(+self._routers))

    async def WatchEngines(  # type: ignore[override]
        self, request: engines_pb2.WatchEnginesRequest, context: Context
    ) -> None:
        """Stream the table until the router or the controller ends."""
        router_id = request.router_id or _UNNAMED
        self._count(router_id, 1)
        try:
            await self._table.wait_opened()
            while not self._table.closed:
                version = self._table.version
                await context.write(self._table.message())
                await self._table.wait_beyond(version, timeout_s=self._load_interval_s)
        finally:
            self._count(router_id, -1)

    def _count(self, router_id: str, change: int) -> None:
        self._routers[router_id] += change
        self._routers = +self._routers
        self._metrics.routers(self._routers.total())
