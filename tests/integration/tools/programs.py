"""grpcurl and buf curl as people run them."""

import subprocess
import sys
from pathlib import Path

_GRPCURL = Path(sys.executable).with_name("grpcurl")
_BUF = Path(sys.executable).with_name("buf")
_LIMIT_S = 20.0
# Long enough for the first message of a stream that never ends.
ENDLESS_S = 2


def grpcurl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(str(_GRPCURL), "-plaintext", *arguments)


def buf_curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(str(_BUF), "curl", "--http2-prior-knowledge", "--protocol", "grpc", *arguments)


def first_output_of(*arguments: str) -> str:
    """Return what `buf curl` prints of an endless stream up to its first whole message, then end it."""
    command = [str(_BUF), "curl", "--http2-prior-knowledge", "--protocol", "grpc", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        process.terminate()
    return "".join(lines)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
