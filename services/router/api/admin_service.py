"""RouterAdminService: what this router sees."""

from typing import Any

from google.protobuf.duration_pb2 import Duration
from twinlane.common.v1 import engine_pb2, lane_pb2
from twinlane.router.v1 import admin_pb2, admin_pb2_grpc

from libs.core.clock import Clock
from libs.core.lanes import LANES, Lane
from libs.rpc.server import Service
from services.router.engines.slot import EngineSlot
from services.router.engines.table import EngineTable
from services.router.flow.measure import Measures
from services.router.policy.engine_choice import predicted_wait_s

NAME = "twinlane.router.v1.RouterAdminService"


class RouterAdminService(admin_pb2_grpc.RouterAdminServiceServicer):
    """See the module."""

    def __init__(self, *, router_id: str, version: str, table: EngineTable, measures: Measures, clock: Clock) -> None:
        self._router_id = router_id
        self._version = version
        self._table = table
        self._measures = measures
        self._clock = clock

    async def GetStatus(self, request: admin_pb2.GetStatusRequest, context: Any) -> admin_pb2.GetStatusResponse:  # noqa: ARG002
        """Read the engine table and the work in flight."""
        now_s = self._clock.monotonic_s()
        return admin_pb2.GetStatusResponse(
            router_id=self._router_id,
            version=self._version,
            table_source=admin_pb2.TableSource.ValueType(self._table.source.value),
            table_version=self._table.version,
            engines=[self._entry(slot, now_s) for slot in self._table.slots],
            lanes=[self._lane(lane) for lane in LANES],
        )

    def _entry(self, slot: EngineSlot, now_s: float) -> admin_pb2.EngineEntry:
        view = slot.view(now_s=now_s, fresh_s=self._table.fresh_s)
        entry = admin_pb2.EngineEntry(
            descriptor=slot.descriptor,
            state=engine_pb2.EngineState.ValueType(slot.state.value),
            freshness=admin_pb2.Freshness.ValueType(view.load.freshness.value),
            in_flight=slot.in_flight,
            predicted_wait_ms=predicted_wait_s(view.load) * 1000,
        )
        if slot.reading is not None:
            age = Duration()
            age.FromMilliseconds(max(0, round((now_s - slot.reading.taken_at_s) * 1000)))
            entry.reading_age.CopyFrom(age)
        return entry

    def _lane(self, lane: Lane) -> admin_pb2.LaneStatus:
        counts = self._measures.lane_counts(lane)
        return admin_pb2.LaneStatus(
            lane=lane_pb2.Lane.ValueType(lane.value),
            in_flight=counts.in_flight,
            answered_total=counts.answered_total,
            failed_total=counts.failed_total,
        )


def router_admin_service(servicer: RouterAdminService) -> Service:
    """Return the service to add to a server."""
    return Service(name=NAME, add_to=lambda server: admin_pb2_grpc.add_RouterAdminServiceServicer_to_server(servicer, server))
