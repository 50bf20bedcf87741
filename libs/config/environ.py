"""The only reader and writer of the process environment."""

import os
from collections.abc import Mapping


def read(name: str) -> str | None:
    """Return the variable, or None where it is not set."""
    return os.environ.get(name)


def export(variables: Mapping[str, str]) -> None:
    """Set variables for this process and its children; libraries that read the environment at import must come after."""
    os.environ.update(variables)


def child(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a child process's environment: this process's with `variables` set."""
    return {**os.environ, **variables}


def quiet_grpc() -> None:
    """Keep gRPC's C core from writing to stderr between our own log lines, unless the variable is set already.

    What it has to say reaches us as status codes. It reads the variable when grpc is first imported, so this comes before.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
