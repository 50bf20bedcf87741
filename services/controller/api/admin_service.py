"""ControllerAdminService: what operators see and order."""

from collections.abc import Callable
from dataclasses import dataclass

from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc

from libs.core.clock import Clock
from libs.core.ids import IdSource
from libs.rpc.boundary import Context
from services.controller.api.admin_messages import decision_message, engine_message, override_message
from services.controller.api.faults import missing_engine, missing_reason, refuse
from services.controller.api.override_request import build_override, check_override
from services.controller.api.paging import page_filter, page_size, page_token
from services.controller.domain import Override, Pause
from services.controller.journal.writer import Journal
from services.controller.loop import ControlLoop
from services.controller.registry import Registry
from services.controller.standing import StandingOrders
from services.controller.table import EngineTable
from services.controller.wire import read_limits


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who this controller is, and what it promises."""

    controller_id: str
    version: str
    term: int
    slo_ms: float


@dataclass(frozen=True, kw_only=True)
class AdminParts:
    """What the service reads and orders."""

    clock: Clock
    ids: IdSource
    identity: Identity
    registry: Registry
    table: EngineTable
    loop: ControlLoop
    orders: StandingOrders
    journal: Journal
    router_ids: Callable[[], tuple[str, ...]]


class AdminService(admin_pb2_grpc.ControllerAdminServiceServicer):
    """Checks requests, hands orders on, and shows what is. Bad requests raise InvalidRequestError."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts

    async def GetStatus(self, _request: admin_pb2.GetStatusRequest, _context: Context) -> admin_pb2.GetStatusResponse:
        """Return the mesh as it is now."""
        parts, pause = self._parts, self._parts.orders.pause
        overrides = parts.orders.overrides
        return admin_pb2.GetStatusResponse(
            controller_id=parts.identity.controller_id,
            version=parts.identity.version,
            controller_epoch=parts.identity.term,
            paused=pause.paused,
            pause_reason=pause.reason,
            realtime_slo_ms=parts.identity.slo_ms,
            engines=[
                engine_message(member, table=parts.table, loop=parts.loop, override=overrides.get(member.descriptor.engine_id))
                for member in parts.registry.members
            ],
            router_ids=parts.router_ids(),
        )

    async def ListDecisions(
        self, request: admin_pb2.ListDecisionsRequest, _context: Context
    ) -> admin_pb2.ListDecisionsResponse:
        """Return one page of the journal. Raises JOURNAL_ERRORS where it cannot be read."""
        size, wanted = page_size(request), page_filter(request)
        found = await self._parts.journal.read(lambda store: store.decisions(wanted, limit=size + 1))
        page = found[:size]
        return admin_pb2.ListDecisionsResponse(
            decisions=[decision_message(stored.record) for stored in page],
            next_page_token=page_token(page[-1].seq) if len(found) > size else "",
        )

    async def Pause(self, request: admin_pb2.PauseRequest, _context: Context) -> admin_pb2.PauseResponse:
        """Stop the laws."""
        refuse([missing_reason(request.reason)])
        if not request.validate_only:
            await self._parts.orders.set_pause(Pause(paused=True, reason=request.reason), reason=request.reason)
        return admin_pb2.PauseResponse(paused=True)

    async def Resume(self, request: admin_pb2.ResumeRequest, _context: Context) -> admin_pb2.ResumeResponse:
        """Let the laws go on."""
        refuse([missing_reason(request.reason)])
        if not request.validate_only:
            await self._parts.orders.set_pause(Pause(), reason=request.reason)
        return admin_pb2.ResumeResponse(paused=False)

    async def SetOverride(self, request: admin_pb2.SetOverrideRequest, _context: Context) -> admin_pb2.SetOverrideResponse:
        """Fix values of an engine. Raises UnknownEngineError."""
        check_override(request)
        override = self._override(request)
        if request.validate_only:
            return admin_pb2.SetOverrideResponse(override=override_message(override))
        await self._parts.orders.set_override(override)
        return admin_pb2.SetOverrideResponse(override=override_message(override), decision_id=override.decision_id)

    async def ClearOverride(
        self, request: admin_pb2.ClearOverrideRequest, _context: Context
    ) -> admin_pb2.ClearOverrideResponse:
        """End an override. An engine that has left may still have one; raises UnknownEngineError where neither is known."""
        refuse([missing_engine(request.engine_id), missing_reason(request.reason)])
        cleared = request.engine_id in self._parts.orders.overrides
        if not cleared:
            self._parts.registry.member(request.engine_id)
        elif not request.validate_only:
            await self._parts.orders.clear_override(request.engine_id, reason=request.reason)
        return admin_pb2.ClearOverrideResponse(cleared=cleared)

    def _override(self, request: admin_pb2.SetOverrideRequest) -> Override:
        member = self._parts.registry.member(request.engine_id)
        return build_override(
            request,
            limits=read_limits(member.descriptor.limits),
            now_s=self._parts.clock.wall_s(),
            decision_id=self._parts.ids.next("dec"),
        )
