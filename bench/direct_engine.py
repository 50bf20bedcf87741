"""vLLM with the real model, driven directly: no gRPC, no router, so that schedulers and caches alone are compared."""

import asyncio
import gc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libs.config import environ
from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from services.engine.domain import Partition
from services.engine.model.prepare import prepare
from services.engine.partition import environment
from services.engine.policy.request_tag import RequestTag, to_extra_args
from services.engine.vllm_ext.control import CLASS_AWARE_KEY, CONTROL_METHOD

CLASS_AWARE = "services.engine.vllm_ext.scheduler.ClassAwareScheduler"
MODEL = "smollm2-135m"
MODEL_FOLDER = Path("var/models") / MODEL
_CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """How vLLM is started. `scheduler_cls` None: stock."""

    scheduler_cls: str | None = None
    policy: str = "fcfs"
    max_batched_tokens: int = 2048
    max_active_sequences: int = 64
    kv_blocks: int | None = None
    tuning: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: seconds from the call to its first and last token, prompt tokens found in the cache, its tokens."""

    first_token_s: float
    total_s: float
    cached_tokens: int
    token_ids: tuple[int, ...]


class DirectEngine:
    """One AsyncLLM; build it inside the running event loop."""

    def __init__(self, choice: EngineChoice) -> None:
        prepare(MODEL, MODEL_FOLDER, progress=lambda line: print(line, flush=True))
        environ.export(environment(Partition(kind="cpu", devices=("0", "1")), kv_cache_gib=1))
        environ.export({"VLLM_CPU_OMP_THREADS_BIND": "auto", "VLLM_LOGGING_LEVEL": "ERROR"})
        from vllm import AsyncEngineArgs  # reads the environment at import
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments: dict[str, Any] = {
            "model": str(MODEL_FOLDER),
            "max_model_len": 4096,
            "enforce_eager": True,
            "max_num_seqs": choice.max_active_sequences,
            "max_num_batched_tokens": choice.max_batched_tokens,
            "block_size": 32,
            "enable_prefix_caching": True,
            "generation_config": "vllm",
            "scheduling_policy": choice.policy,
        }
        if choice.kv_blocks is not None:
            arguments["num_gpu_blocks_override"] = choice.kv_blocks
        if choice.scheduler_cls is not None:
            arguments["scheduler_cls"] = choice.scheduler_cls
            arguments["additional_config"] = {"twinlane": {"tuning": choice.tuning}}
        self._tagged = choice.scheduler_cls is not None
        self._llm: Any = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        self._requests = 0

    async def answer(
        self,
        token_ids: Sequence[int],
        *,
        max_tokens: int,
        tag: RequestTag,
        ignore_eos: bool = True,
        priority: int | None = None,
    ) -> Answer:
        """Ask for one answer. Stock schedulers see the lane as a priority, ours as what it is."""
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        self._requests += 1
        params = SamplingParams(
            max_tokens=max_tokens, temperature=0, ignore_eos=ignore_eos, extra_args=to_extra_args(tag) if self._tagged else None
        )
        if priority is None:
            priority = 0 if tag.lane is Lane.REALTIME or self._tagged else 10
        begun_s = _CLOCK.monotonic_s()
        first_s: float | None = None
        final: Any = None
        async for output in self._llm.generate(
            TokensPrompt(prompt_token_ids=list(token_ids)), params, f"bench-{self._requests}", priority=priority
        ):
            first_s = _CLOCK.monotonic_s() - begun_s if first_s is None else first_s
            final = output
        return Answer(
            first_token_s=first_s or 0.0,
            total_s=_CLOCK.monotonic_s() - begun_s,
            cached_tokens=final.num_cached_tokens or 0,
            token_ids=tuple(final.outputs[0].token_ids),
        )

    async def order(self, order: dict[str, Any]) -> dict[str, Any]:
        """Give the class-aware scheduler an order; see scheduler_control.handle."""
        answers: dict[str, Any] = await self._llm.engine_core.call_utility_async(CONTROL_METHOD, {CLASS_AWARE_KEY: order})
        return answers

    async def stop(self) -> None:
        """End the core process and vLLM's tasks in this loop."""
        handler = self._llm.output_handler
        await asyncio.to_thread(self._llm.shutdown)
        if handler is not None:
            await asyncio.gather(handler, return_exceptions=True)
        with warnings.catch_warnings():
            # vLLM leaves its ZeroMQ context to the garbage collector, which complains of it.
            warnings.simplefilter("ignore", ResourceWarning)
            self._llm = None
            gc.collect()
