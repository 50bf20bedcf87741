"""`twinlane check-config`: is this file one that a service would start with?"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import ExitCode
from libs.config.load import ConfigError, ConfigFault, read_toml
from services.controller.config import load_config as load_controller
from services.engine.config import load_config as load_engine
from services.router.config import load_config as load_router

_LOADERS: dict[str, Callable[[Path], object]] = {
    "controller": load_controller,
    "engine": load_engine,
    "router": load_router,
}
_KINDS = " | ".join(f'"{kind}"' for kind in _LOADERS)


def check_file(file: Path) -> str:
    """Return the service that the file configures. Raises ConfigError with every fault."""
    table = read_toml(file)
    if "service" not in table:
        raise ConfigError(str(file), (ConfigFault("service", f"required key is missing: {_KINDS}"),))
    kind = table["service"]
    if not isinstance(kind, str) or kind not in _LOADERS:
        raise ConfigError(str(file), (ConfigFault("service", f"{kind!r} is not a service: {_KINDS}"),))
    _LOADERS[kind](file)
    return kind


def check_config(files: Annotated[list[Path], typer.Argument(help="Configuration files, of any service.")]) -> None:
    """Check configuration files; every fault is named with its file and key."""
    faulty = False
    for file in files:
        try:
            typer.echo(f"ok: {file} ({check_file(file)})")
        except ConfigError as error:
            faulty = True
            typer.echo(str(error), err=True)
    if faulty:
        raise typer.Exit(ExitCode.FAILED)
