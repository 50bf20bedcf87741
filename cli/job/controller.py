"""What the controller says after the job: status, and the decisions made since it began."""

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc

from cli.calls import ADMIN_TIMEOUT_S, channel_to

_PAGE_SIZE = 1000


async def read_status(address: str) -> admin_pb2.GetStatusResponse | None:
    """Return the controller's status, or None where it is away."""
    async with channel_to(address) as channel:
        try:
            return await admin_pb2_grpc.ControllerAdminServiceStub(channel).GetStatus(
                admin_pb2.GetStatusRequest(), timeout=ADMIN_TIMEOUT_S
            )
        except grpc.aio.AioRpcError:
            return None


async def changes_since(address: str, since: Timestamp) -> tuple[admin_pb2.Decision, ...]:
    """Return the decisions since then that changed or tried to change something, newest first; none where it is away."""
    async with channel_to(address) as channel:
        try:
            page = await admin_pb2_grpc.ControllerAdminServiceStub(channel).ListDecisions(
                admin_pb2.ListDecisionsRequest(changes_only=True, page_size=_PAGE_SIZE), timeout=ADMIN_TIMEOUT_S
            )
        except grpc.aio.AioRpcError:
            return ()
    return tuple(decision for decision in page.decisions if decision.decided_at.ToNanoseconds() >= since.ToNanoseconds())
