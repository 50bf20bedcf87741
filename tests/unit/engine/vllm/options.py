"""Options and requests for tests of what vLLM is told."""

from pathlib import Path
from typing import Literal

from libs.core.lanes import Lane
from services.engine.domain import BackendRequest, Partition, Sampling, VllmOptions


def options(*, kind: Literal["cpu", "gpu", "mig"] = "cpu", devices: tuple[str, ...] = ("0",)) -> VllmOptions:
    return VllmOptions(
        model_name="m",
        model_folder=Path("/models/m"),
        partition=Partition(kind=kind, devices=devices),
        max_context_tokens=512,
        max_active_sequences=64,
        max_batched_tokens=2048,
        block_size_tokens=32,
        enforce_eager=True,
        kv_cache_gib=1 if kind == "cpu" else None,
        gpu_memory_ratio=None if kind == "cpu" else 0.4,
    )


def request() -> BackendRequest:
    return BackendRequest(
        request_id="r",
        token_ids=[1, 2],
        lane=Lane.BATCH,
        max_new_tokens=9,
        sampling=Sampling(temperature=0.5, top_p=0.9, top_k=5, seed=7),
        stop=("END",),
        ignore_eos=True,
    )
