"""Plan of a mesh: cores, ports and files."""

from pathlib import Path

import pytest

from cli.mesh.plan import EngineKind, MeshPlan, make_plan, ports_from, share_cores


def _plan() -> MeshPlan:
    return make_plan(
        backend=EngineKind.SIM,
        host="127.0.0.1",
        ports=ports_from(50051, 9464),
        cores=(0, 1),
        data=Path("/data"),
        model_folder=Path("/data/models/m"),
    )


@pytest.mark.parametrize(
    ("cores", "realtime", "batch"),
    [
        pytest.param((3,), (3,), (3,), id="one-core-is-shared"),
        pytest.param((0, 1), (0,), (1,), id="two-cores-one-each"),
        pytest.param((0, 1, 2), (0,), (1,), id="three-cores-leave-one"),
        pytest.param((0, 1, 2, 3), (0,), (1,), id="four-cores-leave-two"),
        pytest.param(tuple(range(8)), (0, 1, 2), (3, 4, 5), id="eight-cores-three-each"),
        pytest.param(tuple(range(64)), tuple(range(8)), tuple(range(8, 16)), id="many-cores-are-capped"),
    ],
)
def test_share_cores_halves_what_there_is(cores: tuple[int, ...], realtime: tuple[int, ...], batch: tuple[int, ...]) -> None:
    assert share_cores(cores) == (realtime, batch)


def test_share_cores_none_raises() -> None:
    with pytest.raises(ValueError, match="at least one"):
        share_cores(())


def test_make_plan_default_ports_are_those_of_the_readme() -> None:
    addresses = {service.name: (service.address, service.metrics_address) for service in _plan().services}
    assert addresses == {
        "router": ("127.0.0.1:50051", "127.0.0.1:9464"),
        "realtime-1": ("127.0.0.1:50061", "127.0.0.1:9465"),
        "batch-1": ("127.0.0.1:50062", "127.0.0.1:9466"),
        "controller": ("127.0.0.1:50071", "127.0.0.1:9471"),
    }


def test_make_plan_files_of_two_meshes_are_apart() -> None:
    assert _plan().router.config_file == Path("/data/run/sim-50051/router.toml")
