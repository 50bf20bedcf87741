"""One frame of `twinlane top`: read the mesh, show what answered and name what did not."""

import asyncio
from dataclasses import dataclass

import grpc
from rich.console import Group, RenderableType
from rich.text import Text
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc
from twinlane.router.v1 import admin_pb2 as router_pb2
from twinlane.router.v1 import admin_pb2_grpc as router_pb2_grpc

from cli.calls import failure
from cli.top.tables import decisions_table, engines_table, lanes_table

# A frame comes each second; a part that takes longer than this is shown as away.
_READ_TIMEOUT_S = 0.8
_DECISIONS_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class ControllerView:
    """What the controller answered."""

    status: admin_pb2.GetStatusResponse
    decisions: tuple[admin_pb2.Decision, ...]


@dataclass(frozen=True, kw_only=True)
class Away:
    """A part that did not answer, and why."""

    part: str
    why: str


async def read_controller(channel: grpc.aio.Channel, address: str) -> ControllerView | Away:
    """Read status and the last changes."""
    stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
    request = admin_pb2.ListDecisionsRequest(changes_only=True, page_size=_DECISIONS_SHOWN)
    try:
        status, page = await asyncio.gather(
            stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=_READ_TIMEOUT_S),
            stub.ListDecisions(request, timeout=_READ_TIMEOUT_S),
        )
    except grpc.aio.AioRpcError as error:
        return Away(part="controller", why=str(failure(error, address)))
    return ControllerView(status=status, decisions=tuple(page.decisions))


async def read_router(channel: grpc.aio.Channel, address: str) -> router_pb2.GetStatusResponse | Away:
    """Read the router's lanes."""
    stub = router_pb2_grpc.RouterAdminServiceStub(channel)
    try:
        return await stub.GetStatus(router_pb2.GetStatusRequest(), timeout=_READ_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        return Away(part="router", why=str(failure(error, address)))


def render(controller: ControllerView | Away, router: router_pb2.GetStatusResponse | Away) -> RenderableType:
    """Return the frame."""
    return Group(*_controller_part(controller), _router_part(router))


def _controller_part(view: ControllerView | Away) -> tuple[RenderableType, ...]:
    if isinstance(view, Away):
        return (_away(view),)
    head = f"controller {view.status.controller_id}, epoch {view.status.controller_epoch}"
    if view.status.paused:
        head += f", paused: {view.status.pause_reason}"
    changes = decisions_table(view.decisions, title="last changes")
    return (Text(head), engines_table(view.status), changes)


def _router_part(view: router_pb2.GetStatusResponse | Away) -> RenderableType:
    return _away(view) if isinstance(view, Away) else lanes_table(view)


def _away(view: Away) -> Text:
    return Text(f"{view.part} is away: {view.why}", style="bold red")
