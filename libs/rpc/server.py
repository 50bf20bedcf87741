"""A gRPC server of the mesh: health, reflection, the exception boundary, and an end that loses no running call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from libs.rpc.address import ListenError, check_can_listen
from libs.rpc.boundary import Boundary, GuardedServer, Translate

# Four times the mesh's own limit: what lies between is refused by the boundary in words, what is over by the transport.
_TRANSPORT_LIMIT_FACTOR = 4
_MIN_PING_INTERVAL_MS = 5_000


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service to serve: its full name, and what adds its handlers to a server."""

    name: str
    add_to: Callable[[grpc.aio.Server], None]


class RpcServer:
    """A listening server. Health is NOT_SERVING until `set_serving(True)`; "" is the health of the whole process."""

    def __init__(
        self, *, server: grpc.aio.Server, servicer: health.aio.HealthServicer, names: Sequence[str], port: int
    ) -> None:
        self._server = server
        self._health = servicer
        self._names = names
        self.port = port

    async def set_serving(self, serving: bool) -> None:
        """Set the health of every service and of the process."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)

    async def stop(self, *, grace_s: float) -> None:
        """Refuse new calls at once, let running ones finish for up to `grace_s`, then cancel the rest."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def wait_closed(self) -> None:
        """Return when the server has stopped."""
        await self._server.wait_for_termination()


async def start_server(
    *,
    services: Sequence[Service],
    address: str,
    translate: Translate,
    max_request_bytes: int,
    options: Mapping[str, Any] | None = None,
) -> RpcServer:
    """Listen on host:port (port 0 takes a free one) and serve. Raises ListenError where the address cannot be had."""
    check_can_listen(address, purpose="gRPC")
    transport_limit = max_request_bytes * _TRANSPORT_LIMIT_FACTOR
    server = grpc.aio.server(
        options=[
            # Without this two processes may listen on one port and each gets a random half of the calls.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", transport_limit),
            ("grpc.max_send_message_length", transport_limit),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            *(options or {}).items(),
        ],
    )
    # Stands in for the server while handlers are added to it.
    guarded = cast(grpc.aio.Server, GuardedServer(server, Boundary(translate, max_request_bytes=max_request_bytes)))
    names = [service.name for service in services]
    for service in services:
        service.add_to(guarded)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, guarded)
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address} for gRPC: {error}") from error
    await server.start()
    running = RpcServer(server=server, servicer=servicer, names=names, port=port)
    await running.set_serving(False)
    return running
