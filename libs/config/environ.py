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
