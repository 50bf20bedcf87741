"""What `twinlane up` is going to start: services, addresses, cores and files. Pure; nothing here touches the machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

# Cores beyond this do not make a model of this size faster.
_MAX_ENGINE_CORES = 8
# From this many cores on, one is left to router and controller.
_SPARE_CORE_FROM = 4


class EngineKind(StrEnum):
    """Backend of the engines."""

    VLLM = "vllm"
    SIM = "sim"


class ServiceKind(StrEnum):
    """The three services; values are their package names."""

    ROUTER = "router"
    ENGINE = "engine"
    CONTROLLER = "controller"


class Profile(StrEnum):
    """Engine profiles; values name pool and profile."""

    REALTIME = "realtime"
    BATCH = "batch"


@dataclass(frozen=True, kw_only=True)
class ServicePlan:
    """One process: its name, what it listens on, and where its files are."""

    name: str
    kind: ServiceKind
    address: str
    metrics_address: str
    config_file: Path
    log_file: Path


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """One engine: its process, its profile and the cores that it owns."""

    service: ServicePlan
    profile: Profile
    cores: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MeshPlan:
    """The whole mesh. `data` is the folder of everything that is written; `run` holds the files of this mesh."""

    backend: EngineKind
    router: ServicePlan
    controller: ServicePlan
    engines: tuple[EnginePlan, ...]
    model_folder: Path
    data: Path
    run: Path

    @property
    def services(self) -> tuple[ServicePlan, ...]:
        """Every process, in the order in which they start."""
        return (self.controller, *(engine.service for engine in self.engines), self.router)

    @property
    def batch(self) -> Path:
        """Folder of the router's jobs; it outlives a run."""
        return self.data / "batch" / self.run.name

    @property
    def state_file(self) -> Path:
        """Addresses and process ids of the running mesh, as JSON."""
        return self.run / "mesh.json"


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Port numbers of a mesh of two engines."""

    router: int
    realtime: int
    batch: int
    controller: int
    router_metrics: int
    realtime_metrics: int
    batch_metrics: int
    controller_metrics: int


def ports_from(base: int, metrics_base: int) -> Ports:
    """Return the usual layout: router at the base, engines from base + 10, controller at base + 20."""
    return Ports(
        router=base,
        realtime=base + 10,
        batch=base + 11,
        controller=base + 20,
        router_metrics=metrics_base,
        realtime_metrics=metrics_base + 1,
        batch_metrics=metrics_base + 2,
        controller_metrics=metrics_base + 7,
    )


def share_cores(cores: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the cores of the realtime and of the batch engine: halves of what there is, the same core where there is one.

    Raises ValueError without a core.
    """
    if not cores:
        raise ValueError("cores: at least one is needed")
    if len(cores) == 1:
        return (cores[0],), (cores[0],)
    spare = 1 if len(cores) >= _SPARE_CORE_FROM else 0
    share = min((len(cores) - spare) // 2, _MAX_ENGINE_CORES)
    return tuple(cores[:share]), tuple(cores[share : 2 * share])


def make_plan(
    *, backend: EngineKind, host: str, ports: Ports, cores: Sequence[int], data: Path, model_folder: Path
) -> MeshPlan:
    """Return the plan of a mesh with one realtime and one batch engine."""
    run = data / "run" / f"{backend}-{ports.router}"

    def service(name: str, kind: ServiceKind, port: int, metrics_port: int) -> ServicePlan:
        return ServicePlan(
            name=name,
            kind=kind,
            address=f"{host}:{port}",
            metrics_address=f"{host}:{metrics_port}",
            config_file=run / f"{name}.toml",
            log_file=data / "log" / f"{name}.log",
        )

    realtime_cores, batch_cores = share_cores(cores)
    realtime = service("realtime-1", ServiceKind.ENGINE, ports.realtime, ports.realtime_metrics)
    batch = service("batch-1", ServiceKind.ENGINE, ports.batch, ports.batch_metrics)
    return MeshPlan(
        backend=backend,
        router=service("router", ServiceKind.ROUTER, ports.router, ports.router_metrics),
        controller=service("controller", ServiceKind.CONTROLLER, ports.controller, ports.controller_metrics),
        engines=(
            EnginePlan(service=realtime, profile=Profile.REALTIME, cores=realtime_cores),
            EnginePlan(service=batch, profile=Profile.BATCH, cores=batch_cores),
        ),
        model_folder=model_folder,
        data=data,
        run=run,
    )
