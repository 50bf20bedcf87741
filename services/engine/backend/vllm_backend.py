"""vLLM behind the engine's seam: AsyncLLM here, its core in a process of its own, our control method inside it."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Any

from libs.config import environ
from libs.core.clock import Clock
from services.engine.backend.base import Backend
from services.engine.backend.vllm_args import engine_arguments, is_realtime, sampling_arguments
from services.engine.backend.vllm_stats import StepStats
from services.engine.domain import (
    BackendLostError,
    BackendRequest,
    BackendSnapshot,
    BackendStartError,
    Finish,
    Limits,
    TokenChunk,
    TuningValues,
    VllmOptions,
)
from services.engine.partition import environment
from services.engine.policy.tuning import TuningBounds, clamp
from services.engine.vllm_ext.control import CONTROL_METHOD

# The core is asked whether it lives this often; a dead one must show within two seconds.
_LIVENESS_INTERVAL_S = 0.25
_GIB = 1 << 30
_BATCH_PRIORITY = 1000
_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}


class VllmBackend(Backend):
    """See Backend. One instance a process: vLLM reads its environment once."""

    def __init__(self, options: VllmOptions, *, clock: Clock) -> None:
        self._options = options
        self._stats = StepStats(clock)
        self._llm: Any = None
        self._limits: Limits | None = None
        self._lost: asyncio.Future[BackendLostError] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> Limits:
        """See Backend. Takes some 30 s on a CPU."""
        _check_folder(self._options)
        environ.export(environment(self._options.partition, kv_cache_gib=self._options.kv_cache_gib))
        loop = asyncio.get_running_loop()
        self._lost = loop.create_future()
        # vLLM starts its core synchronously; the engine answers health checks and telemetry meanwhile.
        self._llm = await loop.run_in_executor(None, self._load)
        self._limits = self._read_limits()
        if self._options.scheduler == "class-aware":
            await self.control(asdict(self._options.scheduling))
        self._watching = asyncio.create_task(self._watch(), name="vllm-liveness")
        return self._limits

    def _load(self) -> Any:
        try:
            from vllm import AsyncEngineArgs  # reads the environment at import
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise BackendStartError(f"vLLM is not installed ({error}); install the extra engine-cpu or engine-gpu") from error
        try:
            arguments = AsyncEngineArgs(**engine_arguments(self._options))
            return AsyncLLM.from_engine_args(arguments, stat_loggers=[self._stat_logger()])
        except Exception as error:
            raise BackendStartError(f"vLLM did not start with {self._options.model_folder}: {error}") from error

    def _stat_logger(self) -> Any:
        from vllm.v1.metrics.loggers import StatLoggerBase

        stats = self._stats

        class Recorder(StatLoggerBase):  # type: ignore[misc]  # vLLM has no types that mypy could follow
            """Hands vLLM's records on."""

            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
                self.place = (vllm_config.model_config.model, engine_index)

            def record(
                self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
            ) -> None:
                """Take one step's record."""
                del mm_cache_stats, engine_idx
                stats.record(scheduler_stats, iteration_stats)

            def log_engine_initialized(self) -> None:
                """Nothing to say."""

        return Recorder

    def _read_limits(self) -> Limits:
        cache = self._llm.vllm_config.cache_config
        options = self._options
        kv_bytes = cache.kv_cache_memory_bytes or cache.cpu_kvcache_space_bytes or int((options.kv_cache_gib or 0) * _GIB)
        return Limits(
            max_context_tokens=options.max_context_tokens,
            max_active_sequences=options.max_active_sequences,
            max_batched_tokens=options.max_batched_tokens,
            block_size_tokens=cache.block_size,
            kv_blocks=cache.num_gpu_blocks or 0,
            kv_cache_bytes=int(kv_bytes),
        )

    async def generate(self, request: BackendRequest) -> AsyncGenerator[TokenChunk, None]:
        """See Backend."""
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        self._raise_if_lost()
        params = SamplingParams(**sampling_arguments(request), output_kind=RequestOutputKind.DELTA)
        prompt = TokensPrompt(prompt_token_ids=list(request.token_ids))
        if request.cache_salt:
            prompt["cache_salt"] = request.cache_salt
        self._stats.work_arrived()
        # Stock priority order, where that is compared with: realtime before batch, then as the request says.
        priority = request.priority if is_realtime(request) else request.priority + _BATCH_PRIORITY
        outputs = self._llm.generate(prompt, params, request.request_id, priority=priority)
        try:
            async for output in outputs:
                yield _chunk(output)
        except EngineDeadError as error:
            raise self._mark_lost(f"vLLM's core ended: {error}") from error
        finally:
            await outputs.aclose()

    async def apply_tuning(self, values: TuningValues) -> TuningValues:
        """See Backend."""
        if self._limits is None:
            raise RuntimeError("the backend was not started")
        bounds = TuningBounds(
            max_active_sequences=self._limits.max_active_sequences, max_batched_tokens=self._limits.max_batched_tokens
        )
        inside = clamp(values, bounds).values
        held = await self.control(
            {"max_active_sequences": inside.max_active_sequences, "max_batched_tokens": inside.max_batched_tokens}
        )
        return TuningValues(
            max_active_sequences=int(held["max_active_sequences"]), max_batched_tokens=int(held["max_batched_tokens"])
        )

    async def control(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Call our method in the core process; see services/engine/vllm_ext/control.py. Raises BackendLostError."""
        from vllm.v1.engine.exceptions import EngineDeadError

        self._raise_if_lost()
        try:
            held: dict[str, Any] = await self._llm.engine_core.call_utility_async(CONTROL_METHOD, payload)
        except EngineDeadError as error:
            raise self._mark_lost(f"vLLM's core ended: {error}") from error
        return held

    def snapshot(self) -> BackendSnapshot:
        """See Backend."""
        return self._stats.snapshot()

    async def wait_lost(self) -> BackendLostError:
        """See Backend."""
        if self._lost is None:
            raise RuntimeError("the backend was not started")
        return await asyncio.shield(self._lost)

    async def stop(self) -> None:
        """See Backend."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._llm is not None:
            llm, self._llm = self._llm, None
            await asyncio.get_running_loop().run_in_executor(None, llm.shutdown)
        if self._lost is not None:
            self._mark_lost("the engine stopped")

    async def _watch(self) -> None:
        # vLLM says by a flag, not by an event, that its core ended.
        while not self._llm.errored:
            await asyncio.sleep(_LIVENESS_INTERVAL_S)
            try:
                await self._refresh()
            except BackendLostError:
                return
        self._mark_lost("vLLM's core process ended")

    async def _refresh(self) -> None:
        if self._stats.may_be_outdated(quiet_s=_LIVENESS_INTERVAL_S):
            held = await self.control({})
            self._stats.correct(queued=int(held["running"] + held["waiting"]), kv_usage_ratio=held["kv_usage_ratio"])

    def _mark_lost(self, reason: str) -> BackendLostError:
        if self._lost is None:
            raise RuntimeError("the backend was not started")
        if not self._lost.done():
            self._lost.set_result(BackendLostError(reason))
        return self._lost.result()

    def _raise_if_lost(self) -> None:
        if self._lost is None or (self._llm is None and not self._lost.done()):
            raise RuntimeError("the backend was not started")
        if self._lost.done():
            raise self._lost.result()


def _check_folder(options: VllmOptions) -> None:
    folder = options.model_folder
    if not folder.is_dir():
        raise BackendStartError(f"model.folder: {folder} is not a folder")
    if not (folder / "config.json").is_file():
        raise BackendStartError(f"model.folder: {folder} has no config.json; it is not a Hugging Face model folder")


def _chunk(output: Any) -> TokenChunk:
    completion = output.outputs[0]
    finish = None
    if completion.finish_reason is not None:
        if completion.finish_reason not in _FINISH:
            raise BackendLostError(f"vLLM ended a request with {completion.finish_reason!r}")
        finish = _FINISH[completion.finish_reason]
    return TokenChunk(
        text=completion.text,
        token_ids=tuple(completion.token_ids),
        cached_tokens=output.num_cached_tokens or 0,
        finish=finish,
    )
