"""gRPC calls of a command, and the words for their failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import grpc

from cli.errors import CliError, ExitCode
from libs.rpc.channel import open_channel
from libs.rpc.fault import Fault, read_fault

DEFAULT_ROUTER = "127.0.0.1:50051"
DEFAULT_CONTROLLER = "127.0.0.1:50071"
# Enough for a page of the journal and for a long answer.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# Of an operator's call, in seconds: answers come within milliseconds from a healthy mesh.
ADMIN_TIMEOUT_S = 5.0

# Reason that read_fault gives to a status that no service of the mesh made, for instance the transport's own.
_FOREIGN_REASON = "UNKNOWN"

ResultT = TypeVar("ResultT")


@asynccontextmanager
async def channel_to(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to host:port and close it at the end."""
    async with open_channel(address, max_message_bytes=MAX_MESSAGE_BYTES) as channel:
        yield channel


def call(address: str, work: Callable[[grpc.aio.Channel], Awaitable[ResultT]]) -> ResultT:
    """Run `work` on a channel to host:port. Raises CliError that names the address, the reason and the field."""

    async def run() -> ResultT:
        async with channel_to(address) as channel:
            return await work(channel)

    try:
        return asyncio.run(run())
    except grpc.aio.AioRpcError as error:
        raise failure(error, address) from error


def failure(error: grpc.aio.AioRpcError, address: str) -> CliError:
    """Return the command's failure for a failed call."""
    fault = read_fault(error)
    if fault.reason == _FOREIGN_REASON and fault.code is grpc.StatusCode.UNAVAILABLE:
        return CliError(f"{address} cannot be reached: is the mesh up? (twinlane up)", ExitCode.UNREACHABLE)
    return CliError(words(fault), _exit_code(fault.code))


def words(fault: Fault) -> str:
    """Return one line: code, reason, message and when to try again."""
    reason = "" if fault.reason == _FOREIGN_REASON else f" {fault.reason}"
    retry = "" if fault.retry_after_s is None else f" (try again in {fault.retry_after_s:g} s)"
    return f"{fault.code.name}{reason}: {fault.message}{retry}"


def _exit_code(code: grpc.StatusCode) -> ExitCode:
    match code:
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.NOT_FOUND | grpc.StatusCode.FAILED_PRECONDITION:
            return ExitCode.BAD_REQUEST
        case grpc.StatusCode.RESOURCE_EXHAUSTED | grpc.StatusCode.UNAVAILABLE:
            return ExitCode.REFUSED
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return ExitCode.DEADLINE
        case grpc.StatusCode.ABORTED | grpc.StatusCode.CANCELLED:
            return ExitCode.LOST
        case _:
            return ExitCode.FAILED
