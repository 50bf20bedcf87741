"""Exporting to nobody must cost the process neither its life nor its end."""

import subprocess
import sys

PROGRAM = """
import socket
from libs.telemetry.tracing import start_tracing

with socket.socket() as bound:
    bound.bind(("127.0.0.1", 0))
    tracing = start_tracing(service="router", otlp_endpoint=f"127.0.0.1:{bound.getsockname()[1]}")
    with tracing.call("any", {}):
        pass
    tracing.stop()
print("stopped")
"""


def test_stop_without_a_collector_ends_in_time() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "stopped\n"
