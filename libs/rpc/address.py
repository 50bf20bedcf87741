"""host:port addresses."""

import socket
from collections.abc import Sequence
from typing import Any

_MAX_PORT = 65_535


class ListenError(Exception):
    """The address cannot be listened on; the message names it."""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[v6]:port". Raises ValueError that says what is wrong with it."""
    host, colon, port = address.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{address!r} is not host:port")
    if not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
        raise ValueError(f"{address!r} has no port between 0 and {_MAX_PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_can_listen(address: str, *, purpose: str) -> None:
    """Raise ListenError where host:port cannot be listened on now: `purpose` says what for, the message says why not.

    gRPC itself tells no reason, and prints to stderr from C. Nothing listens meanwhile, so nobody can connect by mistake.
    """
    try:
        host, port = split_address(address)
        _bind_any(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ListenError(f"cannot listen on {address} for {purpose}: {reason}") from error


def _bind_any(resolved: Sequence[tuple[int, int, int, str, Any]]) -> None:
    """Bind one of the addresses that a host resolves to, as gRPC does; raise the last OSError where none can be bound."""
    failure: OSError | None = None
    for family, kind, protocol, _, target in resolved:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
                return
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure
