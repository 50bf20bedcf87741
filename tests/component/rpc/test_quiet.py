"""What gRPC's C core writes to stderr; each test runs a process of its own, because grpc is imported once."""

import subprocess
import sys

import pytest

from libs.config import environ

PROGRAM = """
{first}
import asyncio, socket
import grpc

async def main():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        try:
            grpc.aio.server(options=[("grpc.so_reuseport", 0)]).add_insecure_port(f"127.0.0.1:{{taken.getsockname()[1]}}")
        except RuntimeError:
            print("refused")

asyncio.run(main())
"""


def _stderr(first: str, **variables: str) -> str:
    environment = {key: value for key, value in environ.child(variables).items() if key != "GRPC_VERBOSITY" or variables}
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert done.stdout == "refused\n"
    return done.stderr


@pytest.mark.parametrize("package", ["services", "cli"])
def test_process_of_ours_hears_nothing_from_the_c_core(package: str) -> None:
    assert _stderr(f"import {package}") == ""


def test_process_of_others_is_left_alone() -> None:
    assert "add_port" in _stderr("import libs.rpc.server")


def test_level_that_is_set_already_is_kept() -> None:
    assert "add_port" in _stderr("import services", GRPC_VERBOSITY="ERROR")
