"""Commands against a fake mesh: what is printed, and the exit code of each kind of failure."""

import socket

import pytest
from typer.testing import CliRunner, Result

from cli.errors import ExitCode
from cli.main import app
from tests.component.cli.fake_mesh import REFUSED_PROMPT, FakeController


def _run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=stdin, env={"COLUMNS": "200"})


def _dead_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_generate_streams_text_then_one_line_of_usage(mesh: FakeController) -> None:
    result = _run("generate", "What is the capital of France?", "--chat", "--lane", "realtime", "--address", mesh.address)
    assert result.exit_code == 0
    assert result.stdout == "Paris is it.\n"
    assert result.stderr == (
        "3 prompt tokens (0 cached), 3 generated, stop; first token 5 ms, total 9 ms; realtime on realtime-1\n"
    )


def test_generate_dash_reads_standard_input(mesh: FakeController) -> None:
    result = _run("generate", "-", "--address", mesh.address, stdin=REFUSED_PROMPT)
    assert result.exit_code == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("prompt", "exit_code", "message"),
    [
        pytest.param(
            "",
            ExitCode.BAD_REQUEST,
            "twinlane: INVALID_ARGUMENT EMPTY_PROMPT: prompt: must not be empty\n",
            id="bad-request",
        ),
        pytest.param(
            REFUSED_PROMPT,
            ExitCode.REFUSED,
            "twinlane: RESOURCE_EXHAUSTED QUEUE_FULL: the queue is full (try again in 2 s)\n",
            id="refused",
        ),
    ],
)
def test_generate_failure_shows_reason_and_field(mesh: FakeController, prompt: str, exit_code: ExitCode, message: str) -> None:
    result = _run("generate", prompt, "--address", mesh.address)
    assert result.exit_code == exit_code
    assert result.stderr == message


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("generate", "x", "--address"), id="generate"),
        pytest.param(("admin", "status", "--controller"), id="admin-status"),
        pytest.param(("admin", "pause", "--reason", "x", "--controller"), id="admin-pause"),
        pytest.param(("admin", "drain", "realtime-1", "--reason", "x", "--controller"), id="admin-drain"),
    ],
)
def test_command_nobody_listens_names_the_address(command: tuple[str, ...]) -> None:
    address = _dead_address()
    result = _run(*command, address)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert result.stderr == f"twinlane: {address} cannot be reached: is the mesh up? (twinlane up)\n"


def test_top_once_shows_engines_lanes_and_changes(mesh: FakeController) -> None:
    result = _run("top", "--once", "--controller", mesh.address, "--router", mesh.address)
    assert result.exit_code == 0
    for shown in ("realtime-1", "16/512", "router-1", "41", "P99 120 ms is over 100 ms", "16 → 14"):
        assert shown in result.stdout


def test_top_controller_away_says_so_and_still_shows_the_router(mesh: FakeController) -> None:
    address = _dead_address()
    result = _run("top", "--once", "--controller", address, "--router", mesh.address)
    assert result.exit_code == 0
    assert f"controller is away: {address} cannot be reached" in result.stdout
    assert "router router-1" in result.stdout


def test_admin_status_json_is_the_answer(mesh: FakeController) -> None:
    result = _run("admin", "status", "--json", "--controller", mesh.address)
    assert '"controllerId": "c-1"' in result.stdout


def test_admin_pause_validate_only_is_passed_on(mesh: FakeController) -> None:
    result = _run("admin", "pause", "--reason", "incident", "--validate-only", "--controller", mesh.address)
    assert result.stdout == "would be: paused\n"
    assert [(order.reason, order.validate_only) for order in mesh.orders] == [("incident", True)]


def test_admin_override_sets_only_what_was_given(mesh: FakeController) -> None:
    result = _run(
        *("admin", "override", "realtime-1", "--max-active-sequences", "8", "--ttl-s", "30"),
        *("--reason", "load test", "--controller", mesh.address),
    )
    assert result.stdout == "realtime-1: max_active_sequences 8 until 1970-01-01T00:10:00Z\n"
    (order,) = mesh.orders
    assert (order.ttl.seconds, order.tuning.HasField("max_batched_tokens")) == (30, False)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param(("resume",), "running", id="resume"),
        pytest.param(("clear-override", "realtime-1"), "realtime-1: cleared", id="clear-override"),
        pytest.param(("undrain", "realtime-1"), "realtime-1: takes requests", id="undrain"),
    ],
)
def test_admin_order_says_what_holds_now(mesh: FakeController, command: tuple[str, ...], line: str) -> None:
    result = _run("admin", *command, "--reason", "x", "--controller", mesh.address)
    assert result.stdout == f"{line}\n"


def test_admin_override_without_a_value_is_a_usage_error(mesh: FakeController) -> None:
    result = _run("admin", "override", "realtime-1", "--reason", "x", "--controller", mesh.address)
    assert result.exit_code == ExitCode.USAGE
    assert "--max-active-sequences" in result.stderr


def test_admin_drain_goes_to_the_engine(mesh: FakeController) -> None:
    result = _run("admin", "drain", "realtime-1", "--reason", "update", "--controller", mesh.address)
    assert result.stdout == "realtime-1: draining, 4 requests left\n"


def test_admin_drain_unknown_engine_names_those_that_are(mesh: FakeController) -> None:
    result = _run("admin", "drain", "gone-1", "--reason", "update", "--controller", mesh.address)
    assert result.exit_code == ExitCode.BAD_REQUEST
    assert result.stderr == "twinlane: engine 'gone-1' is not registered; there are: realtime-1\n"
