"""Ports: are they free, and which are."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack

from cli.errors import CliError
from cli.mesh.plan import Ports, ServicePlan
from libs.rpc.address import split_address

_PORTS_OF_A_MESH = 8


def require_free(services: Sequence[ServicePlan]) -> None:
    """Raise CliError that names every port in use with the service that wants it."""
    taken = [
        f"{address} ({service.name}{what})"
        for service in services
        for address, what in ((service.address, ""), (service.metrics_address, " metrics"))
        if not _is_free(address)
    ]
    if taken:
        raise CliError(
            f"in use already: {', '.join(taken)}; is another mesh running? --port-base and --metrics-port-base take others"
        )


def free_ports(host: str) -> Ports:
    """Return ports that were free a moment ago, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(_PORTS_OF_A_MESH)]
        for one in sockets:
            one.bind((host, 0))
        numbers = [int(one.getsockname()[1]) for one in sockets]
    names = ("router", "realtime", "batch", "controller")
    return Ports(**dict(zip((*names, *(f"{name}_metrics" for name in names)), numbers, strict=True)))


def _is_free(address: str) -> bool:
    host, port = split_address(address)
    with socket.socket() as probe:
        # As gRPC does: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
