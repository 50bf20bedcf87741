"""The Prometheus endpoint of a process."""

from dataclasses import dataclass
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from libs.rpc.address import ListenError, check_can_listen, split_address


@dataclass(frozen=True, kw_only=True)
class MetricsServer:
    """A running endpoint; serves GET /metrics from a thread of its own."""

    server: Any
    thread: Thread

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return int(self.server.server_port)

    def stop(self) -> None:
        """Stop listening and end the thread."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def serve_metrics(address: str, registry: CollectorRegistry) -> MetricsServer:
    """Serve a registry at host:port (port 0 takes a free one). Raises ListenError where the address cannot be had."""
    check_can_listen(address, purpose="metrics")
    host, port = split_address(address)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ListenError(f"cannot listen on {address} for metrics: {error.strerror or error}") from error
    return MetricsServer(server=server, thread=thread)
