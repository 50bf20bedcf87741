"""Writing of TOML: as much of it as the mesh's configuration files need. The standard library only reads it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | Path
Value: TypeAlias = "Scalar | tuple[Scalar, ...] | TomlTable | list[TomlTable]"
TomlTable: TypeAlias = "Mapping[str, Value]"


def to_toml(table: TomlTable) -> str:
    """Return the file's text: tuples become arrays, lists become arrays of tables. Plain keys come first, as TOML wants it."""
    return "\n".join(_lines(table, "")) + "\n"


def _lines(table: TomlTable, prefix: str) -> list[str]:
    lines, tables = list[str](), list[str]()
    for key, value in table.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{prefix}{key}]", *_lines(value, f"{prefix}{key}.")]
        elif isinstance(value, list):
            for item in value:
                tables += ["", f"[[{prefix}{key}]]", *_lines(item, f"{prefix}{key}.")]
        elif isinstance(value, tuple):
            lines.append(f"{key} = [{', '.join(_scalar(item) for item in value)}]")
        else:
            lines.append(f"{key} = {_scalar(value)}")
    return lines + tables


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    # A TOML basic string takes every escape that JSON writes.
    return json.dumps(str(value), ensure_ascii=False)
