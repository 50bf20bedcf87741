"""What class-aware scheduling costs a step: our scheduler against vLLM's own, same block pool, no model.

    python -m bench.scheduler_cost [--running 32] [--steps 200] [--rounds 31]

Both schedulers make steps with the same number of decoding requests beside long prompts and realtime arrivals. The processor
time of schedule() and update_from_output() is taken in short turns, and medians over the turns are compared, so that what else
the machine does falls on both. The last line is one JSON object; the aim is an added cost below 2 % of a step of 6 ms.
"""

import argparse
import json
import time
from statistics import median
from typing import Any

from bench.core_scheduler import CoreScheduler, build
from bench.direct_engine import MODEL, MODEL_FOLDER
from libs.config import environ
from libs.core.lanes import Lane
from services.engine.model.prepare import prepare

_STEP_S = 0.006
_REALTIME_EACH = 20
_LONG_PROMPT_TOKENS = 1900


class _Timer:
    """Wraps the two calls of a scheduler and adds their time up."""

    def __init__(self, scheduler: Any) -> None:
        self.seconds = 0.0
        for name in ("schedule", "update_from_output"):
            setattr(scheduler, name, self._timed(getattr(scheduler, name)))

    def _timed(self, function: Any) -> Any:
        def call(*args: Any) -> Any:
            begun_s = time.thread_time()
            try:
                return function(*args)
            finally:
                self.seconds += time.thread_time() - begun_s

        return call


def measure(core: CoreScheduler, timer: _Timer, *, running: int, steps: int) -> float:
    """Return the mean seconds that scheduling takes in a step under a steady load."""
    scheduler = core.scheduler
    timer.seconds = 0.0
    for number in range(steps):
        while len(scheduler.running) + len(scheduler.waiting) < running:
            core.add(32, max_tokens=200)
        if number % _REALTIME_EACH == 0:
            core.add(12, lane=Lane.REALTIME, max_tokens=8)
        if number % (4 * _REALTIME_EACH) == 0:
            core.add(_LONG_PROMPT_TOKENS, max_tokens=1)
        core.step()
    return timer.seconds / steps


def compare(*, running: int, steps: int, rounds: int) -> dict[str, Any]:
    """Run both in turns and return the report."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    prepare(MODEL, MODEL_FOLDER, progress=lambda line: print(line, flush=True))
    options: dict[str, Any] = {"blocks": 4096, "max_active": 64, "max_batched": 2048}
    cores = {
        "stock": build(str(MODEL_FOLDER), scheduler_cls=AsyncScheduler, **options),
        "ours": build(str(MODEL_FOLDER), **options),
    }
    timers = {name: _Timer(core.scheduler) for name, core in cores.items()}
    results: dict[str, list[float]] = {name: [] for name in cores}
    for name, core in cores.items():
        measure(core, timers[name], running=running, steps=steps)
    for _ in range(rounds):
        for name, core in cores.items():
            results[name].append(measure(core, timers[name], running=running, steps=steps))
    stock_s, ours_s = median(results["stock"]), median(results["ours"])
    return {
        "running": running,
        "stock_us": round(stock_s * 1e6, 1),
        "ours_us": round(ours_s * 1e6, 1),
        "added_us": round((ours_s - stock_s) * 1e6, 1),
        "added_ratio_of_6_ms_step": round((ours_s - stock_s) / _STEP_S, 4),
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_cost")
    parser.add_argument("--running", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()
    environ.export({"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
    print(json.dumps(compare(running=arguments.running, steps=arguments.steps, rounds=arguments.rounds)))


if __name__ == "__main__":
    main()
