"""Our options and requests in vLLM's words."""

import math
from dataclasses import asdict
from typing import Any

from libs.core.lanes import Lane
from services.engine.domain import BackendRequest, VllmOptions
from services.engine.policy.request_tag import RequestTag, to_extra_args

_CLASS_AWARE = "services.engine.vllm_ext.scheduler.ClassAwareScheduler"
# Requests that named no lane are realtime where they are short: somebody may be waiting, and they hardly disturb.
_AUTO_REALTIME_MAX_TOKENS = 512


def engine_arguments(options: VllmOptions) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's AsyncEngineArgs.

    `generation_config="vllm"` keeps sampling defaults that a model brings along out of requests that do not ask for them.
    """
    arguments: dict[str, Any] = {
        "model": str(options.model_folder),
        "served_model_name": [options.model_name],
        "dtype": options.dtype,
        "max_model_len": options.max_context_tokens,
        "max_num_seqs": options.max_active_sequences,
        "max_num_batched_tokens": options.max_batched_tokens,
        "block_size": options.block_size_tokens,
        "enforce_eager": options.enforce_eager,
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "generation_config": "vllm",
        "disable_log_stats": False,
        "scheduling_policy": "fcfs" if options.scheduler == "fcfs" else "priority",
    }
    if options.scheduler == "class-aware":
        arguments["scheduler_cls"] = _CLASS_AWARE
        arguments["additional_config"] = {"twinlane": {"tuning": asdict(options.scheduling)}}
    if options.kv_blocks is not None:
        arguments["num_gpu_blocks_override"] = options.kv_blocks
    if options.gpu_memory_ratio is not None:
        arguments["gpu_memory_utilization"] = options.gpu_memory_ratio
    if options.partition.kind != "cpu" and len(options.partition.devices) > 1:
        arguments["tensor_parallel_size"] = len(options.partition.devices)
    return arguments


def sampling_arguments(request: BackendRequest) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's SamplingParams, its output kind left out."""
    sampling = request.sampling
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": sampling.seed,
        "max_tokens": request.max_new_tokens,
        "stop": list(request.stop),
        "ignore_eos": request.ignore_eos,
        "extra_args": _extra_arguments(request),
    }


def is_realtime(request: BackendRequest) -> bool:
    """Return whether the scheduler treats a request as realtime."""
    short = len(request.token_ids) <= _AUTO_REALTIME_MAX_TOKENS
    return request.lane is Lane.REALTIME or (request.lane is Lane.AUTO and short)


def _extra_arguments(request: BackendRequest) -> dict[str, Any]:
    return to_extra_args(
        RequestTag(
            lane=Lane.REALTIME if is_realtime(request) else request.lane,
            deadline_s=math.inf if request.deadline_s is None else request.deadline_s,
            hot=request.hot,
            bypass_prefix_cache=request.one_shot,
        )
    )
