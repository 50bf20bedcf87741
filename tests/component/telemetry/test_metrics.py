import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from libs.rpc.address import ListenError
from libs.telemetry.metrics import serve_metrics


def _read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        text: str = response.read().decode()
        return text


def test_endpoint_serves_its_own_registry_and_no_other() -> None:
    registries = CollectorRegistry(), CollectorRegistry()
    servers = [serve_metrics("127.0.0.1:0", registry) for registry in registries]
    try:
        Counter("twinlane_first_total", "first", registry=registries[0]).inc(3)
        assert "twinlane_first_total 3.0" in _read(servers[0].port)
        assert "twinlane_first_total" not in _read(servers[1].port)
    finally:
        for server in servers:
            server.stop()


def test_endpoint_after_stop_listens_no_more() -> None:
    server = serve_metrics("127.0.0.1:0", CollectorRegistry())
    server.stop()
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", server.port), timeout=10):
        pass


def test_endpoint_on_a_port_in_use_raises_and_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match=rf"^cannot listen on {address} for metrics: Address already in use$"):
            serve_metrics(address, CollectorRegistry())


def test_endpoint_on_a_malformed_address_names_it() -> None:
    with pytest.raises(ListenError, match="'nowhere' is not host:port"):
        serve_metrics("nowhere", CollectorRegistry())
