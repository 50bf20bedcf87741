"""host:port addresses."""

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
