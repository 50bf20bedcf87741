"""Starting vLLM: a blocking affair of half a minute that can be given up, and whose failure is told in its own words."""

import multiprocessing
import signal
import tempfile
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from libs.config import environ
from services.engine.backend.vllm_args import engine_arguments
from services.engine.backend.vllm_stats import StepStats
from services.engine.domain import BackendStartError, VllmOptions
from services.engine.partition import environment
from services.engine.vllm_ext.end_report import REPORT_FILE

# A process that got SIGKILL is gone within milliseconds unless the machine is out of breath.
_KILL_LIMIT_S = 5.0


class VllmLoading:
    """One start of vLLM and the processes that it brings up. `load` runs in a thread; the rest may be called meanwhile."""

    def __init__(self, options: VllmOptions, stats: StepStats) -> None:
        self._options = options
        self._stats = stats
        self._given_up = threading.Event()
        self._folder = tempfile.TemporaryDirectory(prefix="twinlane-core-", ignore_cleanup_errors=True)
        self.report_file = Path(self._folder.name) / "cause"
        self._foreign = frozenset(multiprocessing.active_children())
        self._cores: frozenset[BaseProcess] = frozenset()

    def load(self) -> Any:
        """Return a started vllm AsyncLLM. Raises BackendStartError."""
        variables = environment(
            self._options.partition, kv_cache_gib=self._options.kv_cache_gib, plugins=environ.read("VLLM_PLUGINS")
        )
        environ.export({**variables, REPORT_FILE: str(self.report_file)})
        try:
            from vllm import AsyncEngineArgs  # reads the environment at import
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise BackendStartError(f"vLLM is not installed ({error}); install the extra engine-cpu or engine-gpu") from error
        if self._given_up.is_set():
            raise BackendStartError("the start of vLLM was given up")
        try:
            arguments = AsyncEngineArgs(**engine_arguments(self._options))
            return AsyncLLM.from_engine_args(arguments, stat_loggers=[stat_logger(self._stats)])
        except Exception as error:
            why = self.reported_cause() or str(error)
            raise BackendStartError(f"vLLM did not start with {self._options.model_folder}: {why}") from error
        finally:
            self._see_cores()

    def give_up(self) -> None:
        """Make `load` end soon: what it has started is killed. To be repeated until it has ended."""
        self._given_up.set()
        self._see_cores()
        self.kill()

    def kill(self) -> None:
        """Kill every process of this start that still lives, and wait for its end."""
        for core in self._cores:
            core.kill()
            core.join(timeout=_KILL_LIMIT_S)

    def how_it_ended(self) -> str:
        """Say in words how the core ended, as far as it is known."""
        ends = [exit_words(core.exitcode) for core in self._cores if core.exitcode is not None]
        facts = [*ends, *filter(None, [self.reported_cause()])]
        return "; ".join(["vLLM's core process ended", *facts])

    def reported_cause(self) -> str | None:
        """Return the exception that the core named as its end, or None."""
        try:
            return self.report_file.read_text(encoding="utf-8") or None
        except OSError:
            return None

    def close(self) -> None:
        """Remove the report's folder."""
        self._folder.cleanup()

    def _see_cores(self) -> None:
        self._cores |= frozenset(multiprocessing.active_children()) - self._foreign


def stat_logger(stats: StepStats) -> Any:
    """Return a class that hands vLLM's per-step records to `stats`; vLLM makes the object itself."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Recorder(StatLoggerBase):  # type: ignore[misc]  # vLLM has no types that mypy could follow
        """Hands vLLM's records on."""

        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            self.place = (vllm_config.model_config.model, engine_index)

        def record(self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0) -> None:
            """Take one step's record."""
            del mm_cache_stats, engine_idx
            stats.record(scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            """Nothing to say."""

    return Recorder


def exit_words(code: int) -> str:
    """Say what a process's exit code means; below 0 it is a signal's number."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
