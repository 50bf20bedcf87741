"""The class-aware scheduler with vLLM's own block pool and no engine: steps get answers that a model might have given."""

import itertools
import math
from typing import Any

from libs.core.clock import ManualClock
from libs.core.lanes import Lane
from services.engine.policy.request_tag import RequestTag, to_extra_args

BLOCK_SIZE = 16
_TOKEN = 7


def build(
    model: str,
    *,
    blocks: int = 256,
    max_active: int = 16,
    max_batched: int = 256,
    tuning: dict[str, Any] | None = None,
    scheduler_cls: Any = None,
) -> "CoreScheduler":
    """Return a scheduler as vLLM's core would build it for the model in this folder."""
    import torch
    from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    from services.engine.vllm_ext.scheduler import ClassAwareScheduler

    model_config = ModelConfig(model=model, dtype="float16", seed=0, max_model_len=2048)
    scheduler_config = SchedulerConfig(
        max_num_seqs=max_active,
        max_num_batched_tokens=max_batched,
        max_model_len=2048,
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
        async_scheduling=False,
    )
    cache_config = CacheConfig(block_size=BLOCK_SIZE, enable_prefix_caching=True)
    cache_config.num_gpu_blocks = blocks
    config = VllmConfig(
        scheduler_config=scheduler_config,
        model_config=model_config,
        cache_config=cache_config,
        additional_config={"twinlane": {"tuning": tuning or {}}},
    )
    spec = FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv_cache_config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    init_none_hash(sha256)
    scheduler = (scheduler_cls or ClassAwareScheduler)(
        vllm_config=config,
        kv_cache_config=kv_cache_config,
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK_SIZE,
        hash_block_size=BLOCK_SIZE,
        log_stats=True,
    )
    return CoreScheduler(scheduler, get_request_block_hasher(BLOCK_SIZE, sha256))


class CoreScheduler:
    """Drives one scheduler; a step takes `base_s` plus `token_s` a token on a manual clock."""

    def __init__(self, scheduler: Any, block_hasher: Any, *, base_s: float = 0.01, token_s: float = 0.001) -> None:
        self.scheduler = scheduler
        self.clock = ManualClock(monotonic_s=1000.0)
        scheduler.clock = self.clock
        self._hasher = block_hasher
        self._base_s, self._token_s = base_s, token_s
        self._names = (f"r{number}" for number in itertools.count())
        self.finished: list[str] = []

    def add(
        self,
        prompt: list[int] | int,
        *,
        lane: Lane = Lane.BATCH,
        max_tokens: int = 4,
        deadline_s: float = math.inf,
        hot: bool = False,
        bypass: bool = False,
        priority: int = 0,
    ) -> str:
        """Add a request; an integer prompt is that many tokens of its own."""
        from vllm import SamplingParams
        from vllm.v1.request import Request

        name = next(self._names)
        tokens = [int(name[1:]) + 1000] * prompt if isinstance(prompt, int) else prompt
        tag = RequestTag(lane=lane, deadline_s=deadline_s, hot=hot, bypass_prefix_cache=bypass)
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, extra_args=to_extra_args(tag))
        request = Request(
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=params,
            pooling_params=None,
            priority=priority,
            block_hasher=self._hasher,
        )
        self.scheduler.add_request(request)
        return name

    def cancel(self, name: str) -> None:
        """End a request from outside."""
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def step(self) -> dict[str, int]:
        """Make one step and return the tokens of each request in it."""
        from vllm.v1.outputs import ModelRunnerOutput

        output = self.scheduler.schedule()
        scheduled: dict[str, int] = dict(output.num_scheduled_tokens)
        self.clock.advance(self._base_s + self._token_s * sum(scheduled.values()))
        names = list(scheduled)
        requests = self.scheduler.requests
        sampled = [[_TOKEN] if not requests[name].is_prefill_chunk else [] for name in names]
        outputs = self.scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: index for index, name in enumerate(names)},
                sampled_token_ids=sampled,
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=[],
            ),
        )
        for group in outputs.values():
            self.finished.extend(one.request_id for one in group.outputs if one.finish_reason is not None)
        return scheduled

    def run(self, *, most_steps: int = 10_000) -> int:
        """Step until nothing is left and return the number of steps. Raises AssertionError where it does not end."""
        for steps in range(most_steps):
            if not self.scheduler.has_unfinished_requests():
                return steps
            self.step()
        raise AssertionError(f"not done after {most_steps} steps")
