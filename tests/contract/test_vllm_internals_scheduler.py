"""Every internal of vLLM that the class-aware scheduler and the cache tiers rely on. An upgrade of vLLM fails here first.

No engine is started: signatures, attributes and the places where vLLM reads them are checked in its sources. A failure says
what moved and what of ours stands on it.
"""

import ast
import inspect
import textwrap
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def scheduler() -> Any:
    from vllm.v1.core.sched.scheduler import Scheduler

    return Scheduler


@pytest.fixture(scope="module")
def block_pool() -> Any:
    from vllm.v1.core.block_pool import BlockPool

    return BlockPool


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _method_calls(function: Any, on: str) -> set[str]:
    """Names of the methods that a class or function calls on an attribute of this name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr == on
    }


def _attributes_read(function: Any, on: str) -> set[str]:
    """Names of the attributes that a class or function reads of an attribute of this name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == on
    }


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("schedule", ["self", "throttle_prefills"]),
        ("update_from_output", ["self", "scheduler_output", "model_runner_output"]),
        ("add_request", ["self", "request"]),
        ("reset_prefix_cache", ["self", "reset_running_requests", "reset_connector"]),
        ("_reserve_prefill_lookahead", ["self", "request", "num_computed_tokens", "num_new_tokens"]),
        ("_preempt_request", ["self", "request", "timestamp", "drop_stale_output"]),
        ("_free_request_blocks", ["self", "request"]),
        ("_request_blocks_can_be_freed", ["self", "request"]),
    ],
)
def test_method_that_is_overridden_or_called_takes_what_it_took(scheduler: Any, method: str, parameters: list[str]) -> None:
    assert _parameters(getattr(scheduler, method)) == parameters, f"Scheduler.{method} changed: see ClassAwareScheduler"


@pytest.mark.parametrize(
    "name",
    [
        "block_size",
        "kv_cache_manager",
        "max_num_active_reqs",
        "max_num_running_reqs",
        "max_num_scheduled_tokens",
        "need_mamba_block_aligned_split",
        "num_prefill_lookahead",
        "policy",
        "requests",
        "requires_kv_delivery",
        "running",
        "vllm_config",
        "waiting",
    ],
)
def test_attribute_that_is_used_is_set_at_the_start(scheduler: Any, name: str) -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(scheduler.__init__)))
    set_names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    assert name in set_names, f"Scheduler.__init__ sets no {name} any more: see ClassAwareScheduler"


def test_async_scheduler_adds_no_other_override_of_ours() -> None:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    assert issubclass(AsyncScheduler, Scheduler)
    ours = {"schedule", "update_from_output", "add_request", "_reserve_prefill_lookahead", "_preempt_request"}
    assert not ours & set(vars(AsyncScheduler)), "AsyncScheduler overrides a hook of ours: check the order of the calls"


def test_schedule_asks_the_prefill_hook_for_running_and_for_waiting_requests(scheduler: Any) -> None:
    source = inspect.getsource(scheduler.schedule)

    assert source.count("self._reserve_prefill_lookahead(") == 2, "the hook that cuts batch chunks is not asked twice any more"
    for part in source.split("self._reserve_prefill_lookahead(")[1:]:
        assert "if num_new_tokens == 0" in part[:400], "a grant of 0 tokens is not honoured any more"
        assert "self.kv_cache_manager.allocate_slots(" in part, "blocks are not allocated after the hook: shield_hot fails"


def test_schedule_takes_running_requests_in_the_order_of_the_list(scheduler: Any) -> None:
    source = inspect.getsource(scheduler.schedule)

    assert "request = self.running[req_index]" in source


def test_schedule_reads_the_waiting_queue_by_the_methods_that_ours_has(scheduler: Any) -> None:
    source = inspect.getsource(scheduler.schedule)

    assert "request_queue = self.waiting" in source
    assert "if not request_queue or" in source, "an empty-looking queue does not end admission any more: see __bool__"


def test_schedule_stops_the_request_with_the_highest_priority_number(scheduler: Any) -> None:
    source = inspect.getsource(scheduler.schedule)

    assert "key=lambda r: (r.priority, r.arrival_time)" in source, "victims are chosen otherwise: see _rank_victims"


def test_caps_are_read_in_each_step(scheduler: Any) -> None:
    source = inspect.getsource(scheduler.schedule)

    assert "token_budget = self.max_num_scheduled_tokens" in source
    assert "num_running >= self.max_num_active_reqs" in source


def test_waiting_queue_has_the_methods_of_ours_and_no_more() -> None:
    from vllm.v1.core.sched.request_queue import RequestQueue

    from services.engine.vllm_ext.waiting_queue import ClassAwareQueue

    assert RequestQueue.__abstractmethods__ <= set(vars(ClassAwareQueue)), "RequestQueue has a new abstract method"


def test_priority_policy_still_has_its_name() -> None:
    from vllm.v1.core.sched.request_queue import SchedulingPolicy

    assert SchedulingPolicy.PRIORITY.value == "priority"


def test_block_pool_calls_only_methods_of_the_tiered_queue(block_pool: Any) -> None:
    from services.engine.vllm_ext.tiered_queue import TieredBlockQueue

    used = _attributes_read(block_pool, "free_block_queue")
    assert {"popleft_n", "remove", "append_n", "prepend_n", "num_free_blocks"} <= used
    missing = {name for name in used if not hasattr(TieredBlockQueue, name)}
    assert not missing, f"BlockPool uses {sorted(missing)} of its free queue: TieredBlockQueue lacks it"


def test_free_queue_has_no_method_that_the_tiered_queue_lacks() -> None:
    from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue

    from services.engine.vllm_ext.tiered_queue import TieredBlockQueue

    public = {name for name in vars(FreeKVCacheBlockQueue) if not name.startswith("_")}
    # Only KV offloading to the CPU walks the queue, which Twinlane does not switch on.
    missing = public - set(vars(TieredBlockQueue)) - {"iter_blocks_after"}
    assert not missing, f"new methods: {sorted(missing)}"


def test_blocks_without_content_are_prepended_and_cached_ones_appended(block_pool: Any) -> None:
    source = inspect.getsource(block_pool.free_blocks)

    assert "self.free_block_queue.prepend_n(blocks_to_evict_first)" in source
    assert "self.free_block_queue.append_n(blocks_to_evict_last)" in source


@pytest.mark.parametrize("name", ["blocks", "num_gpu_blocks", "free_block_queue", "cached_block_hash_to_block"])
def test_block_pool_has_the_attribute(block_pool: Any, name: str) -> None:
    assert f"self.{name}" in inspect.getsource(block_pool.__init__)


def test_block_has_the_fields_that_are_read() -> None:
    from vllm.v1.core.kv_cache_utils import KVCacheBlock

    block = KVCacheBlock(3)
    assert (block.block_id, block.ref_cnt, block.block_hash, block.is_null) == (3, 0, None, False)


def test_block_hash_splits_into_hash_and_group() -> None:
    from vllm.v1.core.kv_cache_utils import BlockHash, get_block_hash, get_group_id, make_block_hash_with_group_id

    key = make_block_hash_with_group_id(BlockHash(b"name"), 2)
    assert (get_block_hash(key), get_group_id(key)) == (b"name", 2)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("get_blocks", ["self", "request_id"]),
        ("evict_blocks", ["self", "block_ids"]),
        ("free", ["self", "request"]),
    ],
)
def test_kv_cache_manager_has_the_method(method: str, parameters: list[str]) -> None:
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    assert _parameters(getattr(KVCacheManager, method)) == parameters
    assert "self.block_pool = " in inspect.getsource(KVCacheManager.__init__)


@pytest.mark.parametrize(
    "name",
    [
        "request_id",
        "priority",
        "sampling_params",
        "status",
        "num_prompt_tokens",
        "num_computed_tokens",
        "num_output_placeholders",
        "block_hashes",
    ],
)
def test_request_has_the_attribute(name: str) -> None:
    from vllm.v1.request import Request

    assert f"self.{name}" in inspect.getsource(Request.__init__)


def test_request_counts_its_tokens_and_knows_its_end() -> None:
    from vllm.v1.request import Request, RequestStatus

    assert isinstance(Request.num_tokens, property)
    assert RequestStatus.is_finished(RequestStatus.FINISHED_ABORTED)
    assert not RequestStatus.is_finished(RequestStatus.PREEMPTED)


def test_core_updates_once_for_each_schedule_in_order() -> None:
    from vllm.v1.engine.core import EngineCore

    for step in (EngineCore.step, EngineCore.step_with_batch_queue):
        calls = _method_calls(step, "scheduler")
        assert {"schedule", "update_from_output"} <= calls, f"{step.__name__}: the step records get out of step"


def test_scheduler_class_and_our_configuration_reach_the_core() -> None:
    import dataclasses

    from vllm import AsyncEngineArgs, SamplingParams

    names = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    assert {"scheduler_cls", "additional_config"} <= names
    assert SamplingParams(extra_args={"twinlane": {"lane": 1}}).extra_args == {"twinlane": {"lane": 1}}
