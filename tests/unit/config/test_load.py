from dataclasses import FrozenInstanceError
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from libs.config.load import STRICT, ConfigError, ConfigFault, load
from libs.rpc.address import split_address

HERE = Path(__file__).parent


def _checked_address(address: str) -> str:
    split_address(address)
    return address


Address = Annotated[str, AfterValidator(_checked_address)]


class Mode(StrEnum):
    FAST = "fast"
    SLOW = "slow"


@dataclass(config=STRICT, kw_only=True)
class QueueConfig:
    depth: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(ge=0, le=1)]


@dataclass(config=STRICT, kw_only=True)
class EngineEntry:
    address: Address


@dataclass(config=STRICT, kw_only=True)
class SampleConfig:
    service: Literal["router"]
    address: Address
    queue: QueueConfig
    engines: tuple[EngineEntry, ...] = ()
    mode: Mode = Mode.FAST
    folder: Path | None = None


def _faults(name: str) -> tuple[ConfigFault, ...]:
    with pytest.raises(ConfigError) as caught:
        load(HERE / "bad" / name, SampleConfig)
    return caught.value.faults


def test_load_of_a_good_file_gives_the_frozen_object() -> None:
    config = load(HERE / "good.toml", SampleConfig)
    assert config == SampleConfig(service="router", address="127.0.0.1:0", queue=QueueConfig(depth=50, share=0.25))
    with pytest.raises(FrozenInstanceError):
        config.address = "elsewhere:1"


def test_load_reads_arrays_enums_paths_and_whole_numbers_for_fractions(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text(
        'service = "router"\naddress = "a:1"\nmode = "slow"\nfolder = "models/x"\nqueue = {depth = 1, share = 1}\n'
        '[[engines]]\naddress = "b:2"\n'
    )
    config = load(file, SampleConfig)
    assert (config.mode, config.folder, config.queue.share) == (Mode.SLOW, Path("models/x"), 1.0)
    assert config.engines == (EngineEntry(address="b:2"),)


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("unknown_key", "queue.depht", "unknown key"),
        ("number_as_string", "queue.depth", "Input should be a valid integer"),
        ("fraction_for_integer", "queue.depth", "Input should be a valid integer"),
        ("boolean_for_integer", "queue.depth", "Input should be a valid integer"),
        ("not_a_number", "queue.share", "Input should be a finite number"),
        ("infinite", "queue.share", "Input should be a finite number"),
        ("missing_key", "address", "required key is missing"),
        ("value_for_table", "queue", "must be a table"),
        ("other_service", "service", "Input should be 'router'"),
        ("address_without_port", "address", "'nowhere' is not host:port"),
        ("out_of_range", "queue.depth", "Input should be greater than or equal to 1"),
        ("not_toml", "", "is not TOML: Illegal character '\\n' (at line 1, column 18)"),
        ("key_twice", "", "is not TOML: Cannot overwrite a value (at line 2, column 10)"),
        ("not_utf8", "", "is not UTF-8 at byte 12"),
        ("absent", "", "cannot be read: No such file or directory"),
    ],
)
def test_load_of_a_bad_file_names_the_key_and_the_defect(name: str, path: str, message: str) -> None:
    assert _faults(f"{name}.toml") == (ConfigFault(path, message),)


def test_load_of_a_folder_says_so() -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(HERE, SampleConfig)


def test_load_of_an_empty_file_names_every_missing_key() -> None:
    assert [fault.path for fault in _faults("empty.toml")] == ["service", "address", "queue"]


def test_load_of_a_file_with_many_faults_reports_all_with_their_paths() -> None:
    assert {fault.path for fault in _faults("everything.toml")} == {
        "address",
        "adress",
        "queue.depth",
        "queue.share",
        "queue.width",
        "engines.1.address",
    }


def test_error_text_has_one_line_for_each_fault_beginning_with_the_file() -> None:
    file = HERE / "bad" / "everything.toml"
    with pytest.raises(ConfigError) as caught:
        load(file, SampleConfig)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.faults)
    assert all(line.startswith(f"{file}: ") for line in lines)
    assert f"{file}: adress: unknown key" in lines
