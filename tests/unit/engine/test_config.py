"""Configuration of an engine."""

from pathlib import Path

import pytest

from libs.config.load import ConfigError
from services.engine.config import load_config
from services.engine.domain import TuningValues

ROOT = Path(__file__).parents[3]
SIM = """
service = "engine"
engine_id = "e-1"
pool = "realtime"
address = "127.0.0.1:0"
profile = "realtime"
[model]
name = "m"
[backend]
kind = "sim"
"""
MIG = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"


def written(folder: Path, text: str) -> Path:
    file = folder / "engine.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", ["engine-realtime.toml", "engine-batch.toml"])
def test_load_config_of_a_shipped_file_is_accepted(name: str) -> None:
    assert load_config(ROOT / "deploy" / "config" / name).model.name == "smollm2-135m"


def test_load_config_without_limits_takes_the_profile(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, SIM))
    assert (config.envelope.max_context_tokens, config.envelope.block_size_tokens) == (512, 32)
    assert config.initial_tuning == TuningValues(max_active_sequences=64, max_batched_tokens=128)


def test_load_config_on_a_mig_slice_takes_the_gpu_profile(tmp_path: Path) -> None:
    text = SIM.replace('"realtime"\n[model]', '"batch"\n[model]')
    config = load_config(written(tmp_path, f'{text}[partition]\nkind = "mig"\ndevices = ["{MIG}"]\n'))
    assert (config.envelope.max_batched_tokens, config.envelope.block_size_tokens) == (16_384, 64)


def test_load_config_with_lower_limits_clips_the_default_tuning(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, f"{SIM}[limits]\nmax_active_sequences = 4\nmax_batched_tokens = 64\n"))
    assert config.initial_tuning == TuningValues(max_active_sequences=4, max_batched_tokens=64)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(f"{SIM}[sim]\nspeeed = 1\n", "sim.speeed: unknown key", id="unknown key"),
        pytest.param(SIM.replace("e-1", "E 1"), "engine_id: ", id="engine id"),
        pytest.param(f"{SIM}[tuning]\nmax_active_sequences = 65\n", "tuning.max_active_sequences: must be", id="tuning"),
        pytest.param(f'{SIM}[partition]\ndevices = ["x"]\n', "partition.devices.0: 'x' is not a CPU core", id="core"),
        pytest.param(
            f'{SIM}[partition]\nkind = "mig"\ndevices = ["0"]\n', "partition.devices.0: '0' is not a MIG instance", id="mig"
        ),
        pytest.param(f'{SIM}[partition]\ndevices = ["1", "1"]\n', "partition.devices: names a device twice", id="twice"),
        pytest.param(f"{SIM}[partition]\ndevices = []\n", "partition.devices: must name at least one", id="no device"),
        pytest.param(f"{SIM}[limits]\ngpu_memory_ratio = 0.5\n", "limits.gpu_memory_ratio: has no meaning", id="gpu memory"),
        pytest.param(SIM.replace('"sim"', '"vllm"'), "model.folder: required", id="no model folder"),
        pytest.param(
            SIM.replace('"sim"', '"vllm"') + "[limits]\nblock_size_tokens = 48\n",
            "limits.block_size_tokens: 48 is not a multiple of 32",
            id="block size",
        ),
        pytest.param(f"{SIM}[sim]\nkv_blocks = 2\n", "sim.kv_blocks: hold less", id="too few blocks"),
        pytest.param(
            SIM.replace('profile = "realtime"', 'profile = "mine"'),
            "limits.max_context_tokens: required for profile 'mine'",
            id="own profile without limits",
        ),
        pytest.param(
            SIM.replace("127.0.0.1:0", "0.0.0.0:7201") + '[controller]\naddress = "127.0.0.1:1"\n',
            "advertise_address: required",
            id="nobody could reach it",
        ),
        pytest.param(f"{SIM}[limits]\nmax_batched_tokens = 32\n", "limits.max_batched_tokens: must be at least", id="batch"),
    ],
)
def test_load_config_with_a_defect_names_the_key(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text))
    assert fault in str(caught.value)
