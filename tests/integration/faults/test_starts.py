"""Starts that cannot work: exit code and one clear line that names the thing, never a traceback."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.mesh import Mesh

_LIMIT_S = 60.0
_UNUSABLE = 2
_KINDS = ("router", "engine", "controller")


def _start(kind: str, config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"services.{kind}.main", "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)


def _written(mesh: Mesh, kind: str) -> str:
    """Return the configuration that `twinlane up` wrote for a service of that kind."""
    name = {"router": "router", "engine": "realtime-1", "controller": "controller"}[kind]
    (file,) = mesh.data.glob(f"run/*/{name}.toml")
    return file.read_text(encoding="utf-8")


@pytest.fixture
def taken_address() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("kind", _KINDS)
def test_start_unknown_key_exits_2_and_names_it(mesh: Mesh, tmp_path: Path, kind: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text("adress = 'x'\n" + _written(mesh, kind))
    ended = _start(kind, config)
    assert ended.returncode == _UNUSABLE
    assert ended.stderr.splitlines() == [f"{config}: adress: unknown key"]


@pytest.mark.parametrize("kind", _KINDS)
def test_start_wrong_type_exits_2_and_names_the_key(mesh: Mesh, tmp_path: Path, kind: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text("max_request_bytes = 'big'\n" + _written(mesh, kind))
    ended = _start(kind, config)
    assert ended.returncode == _UNUSABLE
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"{config}: max_request_bytes: ")


@pytest.mark.parametrize("kind", _KINDS)
def test_start_port_in_use_exits_2_and_names_it(mesh: Mesh, tmp_path: Path, kind: str, taken_address: str) -> None:
    lines = [
        f'address = "{taken_address}"' if line.startswith("address = ") else line
        for line in _written(mesh, kind).split("[", 1)[0].splitlines()
        if not line.startswith("metrics_address")
    ]
    rest = "[" + _written(mesh, kind).split("[", 1)[1]
    config = tmp_path / "service.toml"
    config.write_text("\n".join([*lines, rest]).replace("controller.db", "other.db"))
    ended = _start(kind, config)
    assert ended.returncode == _UNUSABLE
    assert taken_address in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


@pytest.mark.real
def test_start_model_folder_missing_exits_2_and_names_it(mesh: Mesh, tmp_path: Path) -> None:
    config = tmp_path / "engine.toml"
    missing = tmp_path / "no-model"
    text = _written(mesh, "engine").replace('kind = "sim"', 'kind = "vllm"')
    folder_line = next(line for line in text.splitlines() if line.startswith("folder = "))
    config.write_text(text.replace(folder_line, f'folder = "{missing}"'))
    ended = _start("engine", config)
    assert ended.returncode == _UNUSABLE
    assert str(missing) in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_up_ports_of_a_running_mesh_are_named_with_their_services(mesh: Mesh, tmp_path: Path) -> None:
    port = mesh.router.rpartition(":")[2]
    command = [sys.executable, "-m", "cli.main", "up", "--engine", "sim", "--port-base", port, "--data", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert f"{mesh.router} (router)" in line
    assert not (tmp_path / "run").exists()
