"""vLLM behind the engine's seam: AsyncLLM here, its core in a process of its own, our control method inside it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import structlog

from libs.core.clock import Clock
from services.engine.backend.base import Backend
from services.engine.backend.vllm_args import is_realtime, sampling_arguments
from services.engine.backend.vllm_loading import VllmLoading
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
from services.engine.policy.tuning import TuningBounds, clamp
from services.engine.vllm_ext.control import CLASS_AWARE_KEY, CONTROL_METHOD

_log = structlog.get_logger(__name__)

# The core is asked whether it lives this often; a dead one must show within two seconds.
_LIVENESS_INTERVAL_S = 0.25
# While a start is given up: what it brings up within such a time is killed.
_GIVE_UP_INTERVAL_S = 0.1
_GIB = 1 << 30
_BATCH_PRIORITY = 1000
_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}


class VllmBackend(Backend):
    """See Backend. One instance a process: vLLM reads its environment once."""

    def __init__(self, options: VllmOptions, *, clock: Clock) -> None:
        self._options = options
        self._stats = StepStats(clock)
        self._start: VllmLoading | None = None
        self._loading: asyncio.Future[Any] | None = None
        self._llm: Any = None
        self._limits: Limits | None = None
        self._lost: asyncio.Future[BackendLostError] | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def start(self) -> Limits:
        """See Backend. Takes some 30 s on a CPU; may be cancelled, then `stop` ends what was begun."""
        _check_folder(self._options)
        loop = asyncio.get_running_loop()
        self._lost = loop.create_future()
        self._start = VllmLoading(self._options, self._stats)
        # vLLM starts its core synchronously; the engine answers health checks and telemetry meanwhile.
        self._loading = loop.run_in_executor(None, self._start.load)
        self._llm = await asyncio.shield(self._loading)
        self._limits = self._read_limits()
        self._tasks = (
            asyncio.create_task(self._watch_liveness(), name="vllm-liveness"),
            asyncio.create_task(self._keep_stats_fresh(), name="vllm-stats"),
        )
        await self._check_control()
        return self._limits

    async def _check_control(self) -> None:
        try:
            await self.control({})
        except Exception as error:
            raise BackendStartError(
                f"vLLM's core did not answer Twinlane's control call ({error}); is twinlane installed in this environment?"
            ) from error

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
            raise self._mark_dead() from error
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
        wanted = {"max_active_sequences": inside.max_active_sequences, "max_batched_tokens": inside.max_batched_tokens}
        if self._options.scheduler == "class-aware":
            held = (await self.control({CLASS_AWARE_KEY: {"set": wanted}}))["set"]["tuning"]
        else:
            held = await self.control(wanted)
        return TuningValues(max_active_sequences=held["max_active_sequences"], max_batched_tokens=held["max_batched_tokens"])

    async def control(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Call our method in the core process; see services/engine/vllm_ext/control.py. Raises BackendLostError."""
        from vllm.v1.engine.exceptions import EngineDeadError

        self._raise_if_lost()
        calling = asyncio.ensure_future(self._llm.engine_core.call_utility_async(CONTROL_METHOD, payload))
        try:
            return await self._unless_lost(calling)
        except EngineDeadError as error:
            raise self._mark_dead() from error

    async def _unless_lost(self, calling: "asyncio.Future[dict[str, Any]]") -> dict[str, Any]:
        """Return what the call answers. vLLM leaves a call unanswered for ever when the core dies under it."""
        if self._lost is None:
            raise RuntimeError("the backend was not started")
        ends: tuple[asyncio.Future[Any], ...] = (calling, self._lost)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise self._lost.result()
            return calling.result()
        finally:
            calling.cancel()

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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end_loading()
        if self._llm is not None:
            llm, self._llm = self._llm, None
            await asyncio.get_running_loop().run_in_executor(None, llm.shutdown)
        if self._start is not None:
            # vLLM asks its core to end; here it is made sure of.
            await asyncio.to_thread(self._start.kill)
            self._start.close()
        if self._lost is not None:
            self._mark_lost("the engine stopped")

    async def _end_loading(self) -> None:
        if self._start is None or self._loading is None:
            return
        while not self._loading.done():
            self._start.give_up()
            await asyncio.wait({self._loading}, timeout=_GIVE_UP_INTERVAL_S)
        if self._llm is None and not self._loading.cancelled() and self._loading.exception() is None:
            self._llm = self._loading.result()
        self._loading = None

    async def _watch_liveness(self) -> None:
        while not self._llm.errored:  # noqa: ASYNC110 - vLLM says by a flag, not by an event, that its core ended
            await asyncio.sleep(_LIVENESS_INTERVAL_S)
        self._mark_dead()

    async def _keep_stats_fresh(self) -> None:
        while True:
            await asyncio.sleep(_LIVENESS_INTERVAL_S)
            try:
                await self._refresh()
            except BackendLostError:
                return
            except Exception:
                _log.exception("vLLM's core could not be asked for its load")

    async def _refresh(self) -> None:
        if self._stats.may_be_outdated(quiet_s=_LIVENESS_INTERVAL_S):
            held = await self.control({})
            self._stats.correct(queued=int(held["running"] + held["waiting"]), kv_usage_ratio=held["kv_usage_ratio"])

    def _mark_dead(self) -> BackendLostError:
        """Mark the core lost, in the words of whoever knows best; vLLM itself only says that there is a reason."""
        if self._start is None:
            raise RuntimeError("the backend was not started")
        return self._mark_lost(self._start.how_it_ended())

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
