"""What vLLM is told of our options, and the environment that pins it to a partition."""

import pytest

from services.engine.backend.vllm_args import engine_arguments, sampling_arguments
from services.engine.domain import Partition
from services.engine.partition import environment
from tests.unit.engine.vllm.options import options, request


def test_cpu_engine_gets_no_gpu_arguments() -> None:
    arguments = engine_arguments(options())

    assert (arguments["model"], arguments["block_size"], arguments["max_num_seqs"]) == ("/models/m", 32, 64)
    assert "gpu_memory_utilization" not in arguments
    assert "tensor_parallel_size" not in arguments


def test_model_s_own_sampling_defaults_are_kept_out() -> None:
    assert engine_arguments(options())["generation_config"] == "vllm"


def test_several_gpus_share_the_model() -> None:
    arguments = engine_arguments(options(kind="gpu", devices=("GPU-1", "GPU-2")))

    assert (arguments["tensor_parallel_size"], arguments["gpu_memory_utilization"]) == (2, 0.4)


def test_request_in_vllms_words() -> None:
    assert sampling_arguments(request()) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "seed": 7,
        "max_tokens": 9,
        "stop": ["END"],
        "ignore_eos": True,
        "extra_args": {"twinlane": {"lane": 2, "hot": False, "bypass_prefix_cache": False}},
    }


def test_cpu_partition_binds_threads_and_sets_cache_space() -> None:
    variables = environment(Partition(kind="cpu", devices=("2", "3")), kv_cache_gib=1.5)

    assert (variables["VLLM_CPU_OMP_THREADS_BIND"], variables["VLLM_CPU_KVCACHE_SPACE"]) == ("2,3", "2")
    assert "CUDA_VISIBLE_DEVICES" not in variables


@pytest.mark.parametrize(
    ("partition", "visible"),
    [
        pytest.param(Partition(kind="gpu", devices=("GPU-a", "GPU-b")), "GPU-a,GPU-b", id="gpus"),
        pytest.param(Partition(kind="mig", devices=("MIG-c",)), "MIG-c", id="mig"),
    ],
)
def test_gpu_partition_is_named_by_uuid(partition: Partition, visible: str) -> None:
    variables = environment(partition, kv_cache_gib=None)

    assert variables["CUDA_VISIBLE_DEVICES"] == visible
    assert not any(name.startswith("VLLM_CPU") for name in variables)


def test_nothing_is_fetched_or_reported() -> None:
    variables = environment(Partition(kind="cpu", devices=("0",)), kv_cache_gib=1)

    assert (variables["HF_HUB_OFFLINE"], variables["VLLM_NO_USAGE_STATS"]) == ("1", "1")


@pytest.mark.parametrize(
    ("found", "exported"),
    [
        pytest.param(None, None, id="unset-loads-all"),
        pytest.param("twinlane", None, id="ours-is-there"),
        pytest.param("other,twinlane", None, id="ours-among-others"),
        pytest.param("other", "other,twinlane", id="ours-left-out"),
        pytest.param("", "twinlane", id="empty-loads-none"),
    ],
)
def test_list_of_plugins_gets_ours(found: str | None, exported: str | None) -> None:
    variables = environment(Partition(kind="cpu", devices=("0",)), kv_cache_gib=1, plugins=found)

    assert variables.get("VLLM_PLUGINS") == exported
