"""How a command fails: one clear line on stderr and an exit code that says which kind of failure it was."""

from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup


class ExitCode(IntEnum):
    """Exit codes of every command; documented in docs/operations.md."""

    # What no other code says.
    FAILED = 1
    # A bad argument, option or configuration file.
    USAGE = 2
    # Nobody listens at the address.
    UNREACHABLE = 3
    # The request itself is at fault; the same request will fail again.
    BAD_REQUEST = 4
    # Refused for now: over a limit, no engine, draining. Trying later may work.
    REFUSED = 5
    # The deadline passed.
    DEADLINE = 6
    # The answer began and was lost.
    LOST = 7


class CliError(Exception):
    """Ends the command with a message for the person who typed it."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class CommandGroup(TyperGroup):
    """A group of commands whose CliErrors become one line on stderr."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command named on the command line."""
        try:
            return super().invoke(ctx)
        except CliError as error:
            typer.echo(f"twinlane: {error}", err=True)
            raise typer.Exit(error.exit_code) from error
