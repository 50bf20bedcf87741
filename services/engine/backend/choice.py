"""From configuration to backend. vLLM itself is imported when its backend starts: a simulated engine needs no torch."""

from libs.core.clock import Clock
from services.engine.backend.base import Backend
from services.engine.backend.sim_backend import SimBackend, SimOptions
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.config import EngineConfig
from services.engine.domain import BackendStartError, Limits, VllmOptions
from services.engine.policy.step_cost import StepCost
from services.engine.vocabulary import read_vocabulary_size


def build_backend(config: EngineConfig, *, clock: Clock) -> Backend:
    """Return the configured backend, not yet started. Raises BackendStartError where it cannot be had."""
    if config.backend.kind == "sim":
        return SimBackend(sim_options(config), clock=clock)
    return VllmBackend(vllm_options(config), clock=clock)


def sim_options(config: EngineConfig) -> SimOptions:
    """Return how the simulated engine runs."""
    envelope, sim = config.envelope, config.sim
    return SimOptions(
        max_context_tokens=envelope.max_context_tokens,
        max_active_sequences=envelope.max_active_sequences,
        max_batched_tokens=envelope.max_batched_tokens,
        block_size_tokens=envelope.block_size_tokens,
        kv_blocks=sim.kv_blocks,
        cost=StepCost(
            base_ms=sim.base_step_ms,
            prefill_token_ms=sim.prefill_token_ms,
            decode_ms=sim.decode_ms,
            context_ktoken_ms=sim.context_ktoken_ms,
        ),
        speed=sim.speed,
        vocabulary_size=sim.vocabulary_size,
        seed=sim.seed,
    )


def vllm_options(config: EngineConfig) -> VllmOptions:
    """Return how vLLM runs. Raises BackendStartError where the model's folder is absent."""
    envelope, folder = config.envelope, config.model.folder
    if folder is None or not folder.is_dir():
        raise BackendStartError(f"model.folder: {folder} is not a folder")
    return VllmOptions(
        model_name=config.model.name,
        model_folder=folder,
        partition=config.owned,
        max_context_tokens=envelope.max_context_tokens,
        max_active_sequences=envelope.max_active_sequences,
        max_batched_tokens=envelope.max_batched_tokens,
        block_size_tokens=envelope.block_size_tokens,
        enforce_eager=envelope.enforce_eager,
        kv_cache_gib=envelope.kv_cache_gib,
        gpu_memory_ratio=envelope.gpu_memory_ratio,
        scheduler=config.scheduler.kind,
        scheduling=config.scheduler.options,
    )


def vocabulary_size(config: EngineConfig) -> int | None:
    """Return the number of token ids of the model, or None where it is not known."""
    if config.backend.kind == "sim":
        return config.sim.vocabulary_size
    return None if config.model.folder is None else read_vocabulary_size(config.model.folder)


def configured_limits(config: EngineConfig) -> Limits:
    """Return the envelope as limits; blocks and memory are 0 until the backend has started."""
    envelope = config.envelope
    return Limits(
        max_context_tokens=envelope.max_context_tokens,
        max_active_sequences=envelope.max_active_sequences,
        max_batched_tokens=envelope.max_batched_tokens,
        block_size_tokens=envelope.block_size_tokens,
        kv_blocks=0,
        kv_cache_bytes=0,
    )
