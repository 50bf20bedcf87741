"""TOML files into frozen, fully checked configuration objects.

A configuration class is a `pydantic.dataclasses.dataclass` made with `STRICT`: frozen, no unknown keys, no infinities. A file
is read without silent conversions ("8" is not 8, 1 is not true). Every fault of a file is reported at once, each with its path.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

ConfigT = TypeVar("ConfigT")


class ConfigFault(NamedTuple):
    """One fault: the dotted path of the key ("" for the file itself) and what is wrong with it."""

    path: str
    message: str


class ConfigError(Exception):
    """A configuration file cannot be used; `faults` holds every reason."""

    def __init__(self, file: str, faults: tuple[ConfigFault, ...]) -> None:
        self.file = file
        self.faults = faults
        super().__init__(
            "\n".join(
                f"{file}: {fault.path}: {fault.message}" if fault.path else f"{file}: {fault.message}" for fault in faults
            )
        )


def read_toml(file: Path) -> dict[str, object]:
    """Return the file's root table. Raises ConfigError where it is absent, unreadable or not TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(file), (ConfigFault("", f"cannot be read: {error.strerror}"),)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(file), (ConfigFault("", f"is not UTF-8 at byte {error.start}"),)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(file), (ConfigFault("", f"is not TOML: {error}"),)) from error


def build(table: dict[str, object], config_type: type[ConfigT], *, file: str) -> ConfigT:
    """Return the checked object. Raises ConfigError with every fault of the table."""
    try:
        # Strict mode for JSON, unlike that for Python objects, knows that a file spells enums, paths and tuples out.
        return TypeAdapter(config_type).validate_json(to_json(table, inf_nan_mode="constants"), strict=True)
    except ValidationError as error:
        faults = tuple(
            ConfigFault(".".join(str(part) for part in fault["loc"]), _words(fault["type"], fault["msg"]))
            for fault in error.errors(include_url=False)
        )
        raise ConfigError(file, faults) from error


def load(file: Path, config_type: type[ConfigT]) -> ConfigT:
    """Read and check one file. Raises ConfigError."""
    return build(read_toml(file), config_type, file=str(file))


def _words(kind: str, message: str) -> str:
    match kind:
        case "unexpected_keyword_argument" | "extra_forbidden":
            return "unknown key"
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return "required key is missing"
        case "dataclass_type":
            return "must be a table"
        case _:
            return message.removeprefix("Value error, ")
