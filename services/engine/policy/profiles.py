"""Profiles: what an engine is started with when the configuration says no more than "realtime" or "batch"."""

from dataclasses import dataclass

from services.engine.domain import TuningValues

# vLLM's CPU kernels work on blocks of a multiple of this.
CPU_BLOCK_MULTIPLE_TOKENS = 32
# Below this a step is all overhead.
MIN_BATCHED_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Bounds that a backend is started with. On a CPU `kv_cache_gib` is set, on a GPU `gpu_memory_ratio`."""

    max_context_tokens: int
    max_active_sequences: int
    max_batched_tokens: int
    block_size_tokens: int
    enforce_eager: bool
    kv_cache_gib: float | None = None
    gpu_memory_ratio: float | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Envelope, and the tuning that holds until a controller changes it."""

    envelope: Envelope
    tuning: TuningValues


# Short prompts, many at once. Eager mode: captured graphs pay off in long batches only and cost start-up time and memory.
GPU_REALTIME = Profile(
    envelope=Envelope(
        max_context_tokens=512,
        max_active_sequences=64,
        max_batched_tokens=2048,
        block_size_tokens=16,
        enforce_eager=True,
        gpu_memory_ratio=0.9,
    ),
    tuning=TuningValues(max_active_sequences=64, max_batched_tokens=2048),
)
# Prompts of 5,000 to 10,000 tokens: large blocks keep block tables short, large steps keep the GPU busy.
GPU_BATCH = Profile(
    envelope=Envelope(
        max_context_tokens=16_384,
        max_active_sequences=64,
        max_batched_tokens=16_384,
        block_size_tokens=64,
        enforce_eager=False,
        gpu_memory_ratio=0.9,
    ),
    tuning=TuningValues(max_active_sequences=16, max_batched_tokens=16_384),
)
# A core takes 3 to 5 ms for a prompt token of a small model: 128 tokens keep a step near half a second.
CPU_REALTIME = Profile(
    envelope=Envelope(
        max_context_tokens=512,
        max_active_sequences=64,
        max_batched_tokens=512,
        block_size_tokens=32,
        enforce_eager=True,
        kv_cache_gib=1.0,
    ),
    tuning=TuningValues(max_active_sequences=64, max_batched_tokens=128),
)
# The limit leaves the controller room; at 2,048 tokens a step takes 6 to 10 s on a core.
CPU_BATCH = Profile(
    envelope=Envelope(
        max_context_tokens=8192,
        max_active_sequences=64,
        max_batched_tokens=2048,
        block_size_tokens=64,
        enforce_eager=True,
        kv_cache_gib=2.0,
    ),
    tuning=TuningValues(max_active_sequences=16, max_batched_tokens=128),
)

CPU_PROFILES = {"realtime": CPU_REALTIME, "batch": CPU_BATCH}
GPU_PROFILES = {"realtime": GPU_REALTIME, "batch": GPU_BATCH}


def profile_of(name: str, *, on_cpu: bool) -> Profile | None:
    """Return the profile of that name, or None where the name is the operator's own."""
    return (CPU_PROFILES if on_cpu else GPU_PROFILES).get(name)
