"""Configuration files that `twinlane up` writes: every service accepts its own."""

from pathlib import Path

import pytest

from cli.check_config import check_file
from cli.mesh.configs import write_configs
from cli.mesh.plan import EngineKind, MeshPlan, make_plan, ports_from
from services.engine.config import load_config as load_engine


def _plan(data: Path, backend: EngineKind) -> MeshPlan:
    return make_plan(
        backend=backend,
        host="127.0.0.1",
        ports=ports_from(50051, 9464),
        cores=(0, 1),
        data=data,
        model_folder=data / "models" / "smollm2-135m",
    )


@pytest.mark.parametrize("backend", list(EngineKind))
def test_write_configs_every_file_passes_its_own_check(tmp_path: Path, backend: EngineKind) -> None:
    plan = _plan(tmp_path, backend)
    write_configs(plan)
    checked = {service.name: check_file(service.config_file) for service in plan.services}
    assert checked == {"controller": "controller", "realtime-1": "engine", "batch-1": "engine", "router": "router"}


def test_write_configs_engines_own_different_cores(tmp_path: Path) -> None:
    plan = _plan(tmp_path, EngineKind.VLLM)
    write_configs(plan)
    owned = [load_engine(engine.service.config_file).partition.devices for engine in plan.engines]
    assert owned == [("0",), ("1",)]
