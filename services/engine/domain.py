"""What an engine works with, free of transport and of any one backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Literal

from libs.core.lanes import Lane


class EngineState(IntEnum):
    """Life of an engine. Numbers are those of twinlane.common.v1.EngineState."""

    STARTING = 1
    WARMING = 2
    SERVING = 3
    DRAINING = 4
    UNHEALTHY = 5


class Finish(Enum):
    """Why generation ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn; ranges as in twinlane.common.v1.Sampling, defaults filled in."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class BackendRequest:
    """One checked request: `token_ids` is not empty and fits the context together with at least one new token."""

    request_id: str
    token_ids: Sequence[int]
    lane: Lane
    max_new_tokens: int
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    cache_salt: str = ""
    priority: int = 0
    # Clock.monotonic_s() by which the last token is wanted; None without a deadline.
    deadline_s: float | None = None
    # Its prefix stays in the hot cache tier; or nobody will ask for its prefix again.
    hot: bool = False
    one_shot: bool = False


@dataclass(frozen=True, kw_only=True)
class TokenChunk:
    """Tokens of one step. `cached_tokens` counts the prompt's; it is the same in every chunk of a request.

    `finish` is set in the last chunk and in no other; that chunk may be empty otherwise.
    """

    text: str
    token_ids: Sequence[int]
    cached_tokens: int
    finish: Finish | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Startup envelope: nothing goes beyond it while the engine lives."""

    max_context_tokens: int
    max_active_sequences: int
    max_batched_tokens: int
    block_size_tokens: int
    kv_blocks: int
    kv_cache_bytes: int


@dataclass(frozen=True, kw_only=True)
class TuningValues:
    """Everything that may be tuned at run time."""

    max_active_sequences: int
    max_batched_tokens: int


@dataclass(frozen=True, kw_only=True)
class BackendSnapshot:
    """What a backend measures of itself. None: cannot be measured, or no sample yet. Counters start with the backend."""

    steps_total: int
    # Clock.monotonic_s() at the end of the last step.
    last_step_at_s: float | None
    # Smoothed duration of a step.
    step_s: float | None
    # Share of the last second spent in steps, 0 to 1.
    busy_ratio: float | None
    # Share of cache blocks held by running requests, 0 to 1.
    kv_usage_ratio: float | None
    prefix_query_tokens_total: int | None
    prefix_hit_tokens_total: int | None
    preemptions_total: int | None


class BackendLostError(Exception):
    """The backend's core is gone and does not come back in this process; the message says how it ended."""


class BackendStartError(Exception):
    """The backend cannot start as configured; the message names the folder, key or resource at fault."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Share of a machine: CPU core numbers, GPU UUIDs or MIG instance UUIDs, as text."""

    kind: Literal["cpu", "gpu", "mig"]
    devices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SchedulingOptions:
    """How the class-aware scheduler fills steps and keeps cache blocks; names are those of policy.scheduler_tuning.

    Step-time targets in seconds: with realtime work in the step or expected soon, and without. `prefill_chunk_tokens`: most
    prompt tokens of one batch request in a step. `batch_min_share_ratio`: what batch keeps of the prompt tokens that it would
    process alone (0 to 1). `hot_cache_ratio` of all cache blocks may be hot (0 to 1), unused ones for `hot_retention_s`.
    """

    realtime_step_s: float = 0.1
    idle_step_s: float = 0.4
    prefill_chunk_tokens: int = 512
    batch_min_share_ratio: float = 0.1
    realtime_reserved_slots: int = 2
    hot_cache_ratio: float = 0.3
    hot_retention_s: float = 900.0


@dataclass(frozen=True, kw_only=True)
class VllmOptions:
    """How vLLM is started. Exactly one of `kv_cache_gib` (CPU) and `gpu_memory_ratio` (GPU, 0 to 1) is set."""

    model_name: str
    model_folder: Path
    partition: Partition
    max_context_tokens: int
    max_active_sequences: int
    max_batched_tokens: int
    block_size_tokens: int
    enforce_eager: bool
    # "class-aware" is Twinlane's own; the others are vLLM's, for comparison.
    scheduler: Literal["class-aware", "fcfs", "priority"] = "class-aware"
    dtype: str = "auto"
    kv_cache_gib: float | None = None
    gpu_memory_ratio: float | None = None
    # Fewer cache blocks than the memory would hold, for tests and comparisons.
    kv_blocks: int | None = None
    scheduling: SchedulingOptions = SchedulingOptions()
