"""`twinlane check-config`: dispatch on the root key, and every fault with its path."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app

_CONTROLLER = 'service = "controller"\ncontroller_id = "c"\naddress = "127.0.0.1:50071"\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("x = 1\n", "service: required key is missing", id="no-service"),
        pytest.param('service = "cashier"\n', "service: 'cashier' is not a service", id="unknown-service"),
        pytest.param("service = 7\n", "service: 7 is not a service", id="service-of-wrong-type"),
        pytest.param("service = \n", "is not TOML", id="not-toml"),
        pytest.param(_CONTROLLER + "[slo]\nrealtime_p99_ms = 'fast'\n", "slo.realtime_p99_ms: ", id="wrong-type"),
        pytest.param(_CONTROLLER + "[slo]\nrealtime_p98_ms = 1.0\n", "slo.realtime_p98_ms: unknown key", id="unknown-key"),
    ],
)
def test_check_config_faulty_file_exits_1_and_names_the_fault(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "service.toml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["check-config", str(file)])
    assert result.exit_code == 1
    assert f"{file}: {fault}" in result.stderr


def test_check_config_good_file_says_ok_with_its_service(tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text(_CONTROLLER)
    result = CliRunner().invoke(app, ["check-config", str(file)])
    assert result.exit_code == 0
    assert result.stdout == f"ok: {file} (controller)\n"


def test_check_config_one_bad_file_among_good_ones_still_checks_all(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text(_CONTROLLER)
    missing = tmp_path / "missing.toml"
    result = CliRunner().invoke(app, ["check-config", str(missing), str(good)])
    assert result.exit_code == 1
    assert f"{missing}: cannot be read" in result.stderr
    assert f"ok: {good}" in result.stdout
