"""`twinlane admin`: an operator's calls to controller and engines."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any

import grpc
import typer
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from rich.console import Console
from twinlane.common.v1 import tuning_pb2
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc
from twinlane.engine.v1 import tuning_pb2 as engine_tuning_pb2
from twinlane.engine.v1 import tuning_pb2_grpc as engine_tuning_pb2_grpc

from cli.calls import ADMIN_TIMEOUT_S, DEFAULT_CONTROLLER, call
from cli.errors import CliError, CommandGroup, ExitCode
from cli.top.tables import decisions_table, engines_table

admin = typer.Typer(cls=CommandGroup, rich_markup_mode=None, no_args_is_help=True, help="Operate a running mesh.")

Controller = Annotated[str, typer.Option("--controller", help="host:port of the controller.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the journal.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Say what would happen, do nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
EngineId = Annotated[str, typer.Argument(help="Name of the engine.")]

_DEFAULT_TTL_S = 600.0
_PAGE_SIZE = 20


def _ask(address: str, method: Callable[[Any], Callable[..., Awaitable[Any]]], request: Message) -> Any:
    async def run(channel: grpc.aio.Channel) -> Any:
        return await method(channel)(request, timeout=ADMIN_TIMEOUT_S)

    return call(address, run)


def _show(answer: Message, as_json: bool, line: str) -> None:
    typer.echo(json_format.MessageToJson(answer) if as_json else line)


def _planned(validate_only: bool) -> str:
    return "would be: " if validate_only else ""


@admin.command()
def status(controller: Controller = DEFAULT_CONTROLLER, as_json: AsJson = False) -> None:
    """Show the engines, their load and tuning."""
    answer = _ask(
        controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).GetStatus, admin_pb2.GetStatusRequest()
    )
    if as_json:
        typer.echo(json_format.MessageToJson(answer))
        return
    Console(highlight=False, markup=False).print(engines_table(answer))
    paused = f"paused: {answer.pause_reason}" if answer.paused else "running"
    typer.echo(
        f"controller {answer.controller_id} at {controller}: {paused}; routers: {', '.join(answer.router_ids) or 'none'}"
    )


@admin.command()
def decisions(
    engine: Annotated[str, typer.Option(help="Only about this engine.")] = "",
    changes: Annotated[bool, typer.Option("--changes", help="Only those that changed something.")] = False,
    count: Annotated[int, typer.Option(min=1, max=1000)] = _PAGE_SIZE,
    controller: Controller = DEFAULT_CONTROLLER,
    as_json: AsJson = False,
) -> None:
    """Show the controller's newest decisions with their reasons."""
    request = admin_pb2.ListDecisionsRequest(engine_id=engine, changes_only=changes, page_size=count)
    answer = _ask(controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).ListDecisions, request)
    if as_json:
        typer.echo(json_format.MessageToJson(answer))
    else:
        Console(highlight=False, markup=False).print(decisions_table(answer.decisions))


@admin.command()
def pause(
    reason: Reason,
    validate_only: ValidateOnly = False,
    controller: Controller = DEFAULT_CONTROLLER,
    as_json: AsJson = False,
) -> None:
    """Stop the controller from changing engines; it goes on observing."""
    request = admin_pb2.PauseRequest(reason=reason, validate_only=validate_only)
    answer = _ask(controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).Pause, request)
    _show(answer, as_json, f"{_planned(validate_only)}{'paused' if answer.paused else 'running'}")


@admin.command()
def resume(
    reason: Reason,
    validate_only: ValidateOnly = False,
    controller: Controller = DEFAULT_CONTROLLER,
    as_json: AsJson = False,
) -> None:
    """End a pause."""
    request = admin_pb2.ResumeRequest(reason=reason, validate_only=validate_only)
    answer = _ask(controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).Resume, request)
    _show(answer, as_json, f"{_planned(validate_only)}{'paused' if answer.paused else 'running'}")


def tuning_of(*, max_active_sequences: int | None, max_batched_tokens: int | None) -> tuning_pb2.Tuning:
    """Return the tuning with the values that were given. Raises CliError where none was."""
    if max_active_sequences is None and max_batched_tokens is None:
        raise CliError("give --max-active-sequences or --max-batched-tokens, or both", ExitCode.USAGE)
    return tuning_pb2.Tuning(max_active_sequences=max_active_sequences, max_batched_tokens=max_batched_tokens)


@admin.command()
def override(
    engine_id: EngineId,
    reason: Reason,
    max_active_sequences: Annotated[int | None, typer.Option(min=0)] = None,
    max_batched_tokens: Annotated[int | None, typer.Option(min=0)] = None,
    ttl_s: Annotated[float, typer.Option(help="Seconds until it ends by itself.")] = _DEFAULT_TTL_S,
    validate_only: ValidateOnly = False,
    controller: Controller = DEFAULT_CONTROLLER,
    as_json: AsJson = False,
) -> None:
    """Fix tuning values of an engine until they expire."""
    ttl = Duration()
    ttl.FromTimedelta(timedelta(seconds=ttl_s))
    request = admin_pb2.SetOverrideRequest(
        engine_id=engine_id,
        tuning=tuning_of(max_active_sequences=max_active_sequences, max_batched_tokens=max_batched_tokens),
        ttl=ttl,
        reason=reason,
        validate_only=validate_only,
    )
    answer = _ask(controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).SetOverride, request)
    held = json_format.MessageToDict(answer.override.tuning, preserving_proto_field_name=True)
    values = ", ".join(f"{name} {value}" for name, value in held.items())
    until = answer.override.expire_time.ToJsonString()
    _show(answer, as_json, f"{_planned(validate_only)}{engine_id}: {values} until {until}")


@admin.command("clear-override")
def clear_override(
    engine_id: EngineId,
    reason: Reason,
    validate_only: ValidateOnly = False,
    controller: Controller = DEFAULT_CONTROLLER,
    as_json: AsJson = False,
) -> None:
    """End an override early."""
    request = admin_pb2.ClearOverrideRequest(engine_id=engine_id, reason=reason, validate_only=validate_only)
    answer = _ask(controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).ClearOverride, request)
    _show(answer, as_json, f"{_planned(validate_only)}{engine_id}: {'cleared' if answer.cleared else 'no override held'}")


@admin.command()
def drain(engine_id: EngineId, reason: Reason, controller: Controller = DEFAULT_CONTROLLER, as_json: AsJson = False) -> None:
    """Make an engine refuse new requests and finish those that run."""
    request = engine_tuning_pb2.DrainRequest(reason=reason)
    answer = _ask(
        _engine_address(engine_id, controller),
        lambda channel: engine_tuning_pb2_grpc.TuningServiceStub(channel).Drain,
        request,
    )
    _show(answer, as_json, f"{engine_id}: draining, {answer.remaining_requests} requests left")


@admin.command()
def undrain(engine_id: EngineId, reason: Reason, controller: Controller = DEFAULT_CONTROLLER, as_json: AsJson = False) -> None:
    """Let a draining engine take requests again."""
    request = engine_tuning_pb2.UndrainRequest(reason=reason)
    answer = _ask(
        _engine_address(engine_id, controller),
        lambda channel: engine_tuning_pb2_grpc.TuningServiceStub(channel).Undrain,
        request,
    )
    _show(answer, as_json, f"{engine_id}: takes requests")


def _engine_address(engine_id: str, controller: str) -> str:
    answer = _ask(
        controller, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).GetStatus, admin_pb2.GetStatusRequest()
    )
    known = {engine.descriptor.engine_id: engine.descriptor.address for engine in answer.engines}
    if engine_id not in known:
        raise CliError(f"engine {engine_id!r} is not registered; there are: {', '.join(known) or 'none'}", ExitCode.BAD_REQUEST)
    return str(known[engine_id])
