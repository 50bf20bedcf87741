"""Realtime answers beside long batch prompts: stock vLLM's schedulers against the class-aware one.

    python -m bench.mixed_load [--modes stock-fcfs,...,twinlane] [--curve] [--rounds 1] [--svg FILE] [--quiet]

Four 2,000-token batch prompts run beside a 4-token realtime answer each half second, on the real model, both cores. Each mode
has an engine process of its own. Modes: stock-fcfs, stock-priority, stock-priority-N (N batched tokens), twinlane, and
twinlane@R/I with step targets of R and I seconds with and without realtime work. Realtime alone and batch alone are measured on
the stock engine. The last line is one JSON object; of several rounds the median of each figure counts. `others_ratio` is the
share of the machine that other processes used meanwhile; with --quiet each mode waits for a quiet machine and is repeated where
it was disturbed.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.contention import Contention, wait_quiet
from bench.direct_engine import CLASS_AWARE, DirectEngine, EngineChoice
from bench.scatter_plot import Point, scatter_svg
from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from libs.limits.window import quantile
from services.engine.policy.request_tag import RequestTag

MODES = (
    "stock-fcfs",
    "stock-priority",
    "stock-priority-64",
    "stock-priority-128",
    "stock-priority-256",
    "stock-priority-512",
    "twinlane",
)
CURVE = ("twinlane@0.05/0.25", "twinlane@0.07/0.3", "twinlane@0.15/0.4", "twinlane@0.25/0.4", "twinlane@0.4/0.6")
_ALONE = "alone"
_BATCH_PROMPTS = 4
_BATCH_PROMPT_TOKENS = 2000
_BATCH_ANSWER_TOKENS = 16
_REALTIME_PROMPT_TOKENS = 12
_REALTIME_ANSWER_TOKENS = 4
_REALTIME_INTERVAL_S = 0.5
_REALTIME_ALONE_COUNT = 40
_WARM_UP_REALTIME = 10
_BATCH_HEAD_START_S = 0.2
_SETTLE_S = 1.0
# Others taking more than this share of the machine make a figure worthless.
_DISTURBED_RATIO = 0.08
_QUIET_PATIENCE_S = 180.0
_TRIES = 2
_VOCABULARY = range(1000, 40_000)
_CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Realtime latency from the call to the last token, and when the last batch prompt was answered; None: not run."""

    rt_p50_s: float | None = None
    rt_p99_s: float | None = None
    rt_count: int = 0
    batch_done_s: float | None = None
    others_ratio: float = 0.0


class Load:
    """Makes the calls; prompts differ from one another, so that the prefix cache serves none."""

    def __init__(self, engine: DirectEngine) -> None:
        self._engine = engine
        self._random = random.Random(1)
        self._realtime_s: list[float] = []

    async def warm_up(self) -> None:
        """Teach the engine and its step-time model both kinds of work."""
        for _ in range(_WARM_UP_REALTIME):
            await self._realtime()
        await self._batch()
        self._realtime_s.clear()

    async def batch(self) -> float:
        """Run the batch prompts and return the seconds until the last one is answered."""
        begun_s = _CLOCK.monotonic_s()
        await asyncio.gather(*(self._batch() for _ in range(_BATCH_PROMPTS)))
        return _CLOCK.monotonic_s() - begun_s

    async def realtime_beside(self, work: "asyncio.Task[float] | None") -> None:
        """Call once an interval until `work` is done, or a fixed number of times; return when all are answered."""
        calls: list[asyncio.Task[None]] = []
        while len(calls) < _REALTIME_ALONE_COUNT if work is None else not work.done():
            calls.append(asyncio.create_task(self._realtime()))
            await asyncio.sleep(_REALTIME_INTERVAL_S)
        await asyncio.gather(*calls)

    def result(self, batch_done_s: float | None) -> Result:
        """Return what was measured."""
        ordered = sorted(self._realtime_s)
        if not ordered:
            return Result(batch_done_s=batch_done_s)
        return Result(
            rt_p50_s=quantile(ordered, 0.5), rt_p99_s=quantile(ordered, 0.99), rt_count=len(ordered), batch_done_s=batch_done_s
        )

    async def _realtime(self) -> None:
        answer = await self._engine.answer(
            self._prompt(_REALTIME_PROMPT_TOKENS), max_tokens=_REALTIME_ANSWER_TOKENS, tag=RequestTag(lane=Lane.REALTIME)
        )
        self._realtime_s.append(answer.total_s)

    async def _batch(self) -> None:
        await self._engine.answer(
            self._prompt(_BATCH_PROMPT_TOKENS), max_tokens=_BATCH_ANSWER_TOKENS, tag=RequestTag(lane=Lane.BATCH)
        )

    def _prompt(self, length: int) -> list[int]:
        return self._random.choices(_VOCABULARY, k=length)


def choice_of(mode: str) -> EngineChoice:
    """Return the engine of a mode. Raises ValueError for a name that is none."""
    if mode in ("stock-fcfs", _ALONE):
        return EngineChoice()
    if mode == "stock-priority":
        return EngineChoice(policy="priority")
    if match := re.fullmatch(r"stock-priority-(\d+)", mode):
        return EngineChoice(policy="priority", max_batched_tokens=int(match[1]))
    if mode == "twinlane":
        return EngineChoice(scheduler_cls=CLASS_AWARE)
    if match := re.fullmatch(r"twinlane@([\d.]+)/([\d.]+)", mode):
        tuning = {"realtime_step_s": float(match[1]), "idle_step_s": float(match[2])}
        return EngineChoice(scheduler_cls=CLASS_AWARE, tuning=tuning)
    raise ValueError(f"{mode!r} is not a mode; modes are {', '.join(MODES)} and twinlane@R/I")


async def run_mode(mode: str) -> dict[str, Any]:
    """Run one mode in this process."""
    engine = DirectEngine(choice_of(mode))
    try:
        load = Load(engine)
        await load.warm_up()
        await asyncio.sleep(_SETTLE_S)
        contention = Contention()
        if mode == _ALONE:
            await load.realtime_beside(None)
            batch_done_s = await load.batch()
        else:
            work = asyncio.create_task(load.batch())
            await asyncio.sleep(_BATCH_HEAD_START_S)
            await load.realtime_beside(work)
            batch_done_s = await work
        return asdict(replace(load.result(batch_done_s), others_ratio=round(contention.others_ratio(), 3)))
    finally:
        await engine.stop()


def run_child(mode: str) -> dict[str, Any]:
    """Run one mode in a process of its own and return its result. Raises CalledProcessError where it fails."""
    command = [sys.executable, "-m", "bench.mixed_load", "--child", mode]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{mode:24} {json.dumps(result)}", flush=True)
    return result


def run_undisturbed(mode: str) -> dict[str, Any]:
    """Run one mode when the machine is quiet, again where it did not stay so; the least disturbed try counts."""
    tries = []
    for _ in range(_TRIES):
        wait_quiet(below_ratio=_DISTURBED_RATIO, patience_s=_QUIET_PATIENCE_S)
        tries.append(run_child(mode))
        if tries[-1]["others_ratio"] < _DISTURBED_RATIO:
            break
    return min(tries, key=lambda result: float(result["others_ratio"]))


def medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure."""
    return {key: median(result[key] for result in results) if results[0][key] is not None else None for key in results[0]}


def plot(report: dict[str, Any]) -> str:
    """Return the curve as SVG: realtime P99 against batch time."""
    points = [
        Point(
            x=result["batch_done_s"],
            y=result["rt_p99_s"],
            label=mode.removeprefix("stock-").removeprefix("twinlane@"),
            series="twinlane" if mode.startswith("twinlane") else "stock vLLM",
        )
        for mode, result in report["modes"].items()
    ]
    return scatter_svg(
        points,
        title="Realtime P99 against batch time, SmolLM2-135M on two cores",
        x_title="four 2,000-token batch prompts done, s",
        y_title="realtime P99, s",
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.mixed_load")
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated")
    parser.add_argument("--curve", action="store_true", help="add several step targets of ours")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--svg", type=Path, help="write the curve there")
    parser.add_argument("--quiet", action="store_true", help="wait for a quiet machine, repeat what was disturbed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run from the command line."""
    arguments = parse()
    if arguments.child:
        print(json.dumps(asyncio.run(run_mode(arguments.child))))
        return
    modes = [*arguments.modes.split(","), *(CURVE if arguments.curve else ())]
    for mode in modes:
        choice_of(mode)
    measure = run_undisturbed if arguments.quiet else run_child
    rounds = [{mode: measure(mode) for mode in (_ALONE, *modes)} for _ in range(arguments.rounds)]
    results = {mode: medians([one[mode] for one in rounds]) for mode in rounds[0]}
    alone = results.pop(_ALONE)
    report = {"rt_alone_p99_s": alone["rt_p99_s"], "rt_alone_p50_s": alone["rt_p50_s"], "batch_alone_s": alone["batch_done_s"]}
    report["modes"] = results
    if arguments.svg:
        arguments.svg.write_text(plot(report), encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
