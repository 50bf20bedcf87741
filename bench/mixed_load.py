"""Realtime answers beside long batch prompts on one real engine: vLLM's own schedulers against Twinlane's.

    python -m bench.mixed_load [--modes stock-fcfs,stock-priority,stock-priority-128,twinlane] [--plot FILE]

The workload: four batch prompts of 2,000 tokens with 16 new tokens each, and meanwhile a realtime answer of 4 tokens each half
second. All modes of one scheduler run on one started engine (both cores), each with a cache salt of its own. The last line is
one JSON object: realtime alone and batch alone, and for each mode the realtime P50 and P99 to the last token and the time
until all batch work was done, in seconds. Modes "twinlane/R/B" set the two step-time targets in milliseconds; "twinlane" is
the one among them that meets both aims best.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from libs.limits.window import quantile
from libs.tokens.folder import FolderTokenizer
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.domain import BackendRequest, Partition, VllmOptions
from services.engine.model.prepare import prepare

_CLOCK = SystemClock()
_MODEL = "smollm2-135m"
_MODEL_FOLDER = Path("var/models") / _MODEL
_LONG_TEXT = "The quick brown fox jumps over the lazy dog. " * 200
_BATCH_PROMPTS = 4
_BATCH_TOKENS = 16
_REALTIME_TOKENS = 4
_REALTIME_INTERVAL_S = 0.5
_ALONE_ANSWERS = 40
# A mode that starves realtime ends when batch is done; this only bounds a run that went wrong.
_MAX_ANSWERS = 400

SchedulerName = Literal["class-aware", "fcfs", "priority"]

STOCK_MODES = ("stock-fcfs", "stock-priority", *(f"stock-priority-{tokens}" for tokens in (64, 128, 256, 512)))
OUR_MODES = tuple(
    f"twinlane/{realtime}/{batch}" for realtime, batch in ((60, 400), (80, 400), (100, 400), (120, 500), (250, 400))
)
# What both aims ask: realtime P99 against realtime alone, batch time against batch alone.
_AIM_REALTIME_RATIO, _AIM_BATCH_RATIO = 3.5, 1.33


@dataclass(frozen=True, kw_only=True)
class Result:
    """One mode's figures in seconds."""

    rt_p50_s: float
    rt_p99_s: float
    batch_done_s: float
    rt_count: int


class Bench:
    """One started engine and the workload."""

    def __init__(self, backend: VllmBackend, tokenizer: FolderTokenizer) -> None:
        self._backend = backend
        self._tokenizer = tokenizer
        self._count = 0

    async def answer(self, text: str, *, lane: Lane, new_tokens: int, salt: str) -> float:
        """Run one request; returns the seconds to its last token."""
        self._count += 1
        request = BackendRequest(
            request_id=f"r{self._count}",
            token_ids=self._tokenizer.encode(text),
            lane=lane,
            max_new_tokens=new_tokens,
            ignore_eos=True,
            cache_salt=salt,
        )
        begun_s = _CLOCK.monotonic_s()
        async for _ in self._backend.generate(request):
            pass
        return _CLOCK.monotonic_s() - begun_s

    async def realtime(self, number: int, salt: str) -> float:
        """One realtime answer."""
        text = f"classify ticket {number}: refund please"
        return await self.answer(text, lane=Lane.REALTIME, new_tokens=_REALTIME_TOKENS, salt=salt)

    async def batch(self, salt: str) -> float:
        """All batch prompts; returns the seconds until the last was done."""
        begun_s = _CLOCK.monotonic_s()
        await asyncio.gather(
            *(
                self.answer(f"{number} {_LONG_TEXT}", lane=Lane.BATCH, new_tokens=_BATCH_TOKENS, salt=salt)
                for number in range(_BATCH_PROMPTS)
            )
        )
        return _CLOCK.monotonic_s() - begun_s

    async def realtime_alone(self) -> list[float]:
        """Realtime at its rate with nothing beside it."""
        tasks = []
        for number in range(_ALONE_ANSWERS):
            tasks.append(asyncio.create_task(self.realtime(number, "alone")))
            await asyncio.sleep(_REALTIME_INTERVAL_S)
        return list(await asyncio.gather(*tasks))

    async def mixed(self, salt: str) -> Result:
        """The whole workload."""
        batch = asyncio.create_task(self.batch(salt))
        answers: list[asyncio.Task[float]] = []
        await asyncio.sleep(_REALTIME_INTERVAL_S / 2)
        while not batch.done() and len(answers) < _MAX_ANSWERS:
            answers.append(asyncio.create_task(self.realtime(len(answers), salt)))
            await asyncio.wait([batch], timeout=_REALTIME_INTERVAL_S)
        took = sorted(await asyncio.gather(*answers))
        return Result(rt_p50_s=quantile(took, 0.5), rt_p99_s=quantile(took, 0.99), batch_done_s=await batch, rt_count=len(took))


def scheduler_of(mode: str) -> SchedulerName:
    """Return the scheduler that a mode needs."""
    if mode.startswith("twinlane"):
        return "class-aware"
    return "fcfs" if mode == "stock-fcfs" else "priority"


def settings_of(mode: str) -> dict[str, Any]:
    """Return what a mode sets through the control channel."""
    if mode.startswith("twinlane"):
        _, realtime_ms, batch_ms = mode.split("/")
        return {"realtime_step_s": int(realtime_ms) / 1000, "batch_step_s": int(batch_ms) / 1000}
    last = mode.rsplit("-", 1)[-1]
    return {"max_batched_tokens": int(last) if last.isdigit() else 2048}


async def run_engine(scheduler: SchedulerName, modes: Sequence[str], *, alone: bool) -> dict[str, Any]:
    """Run modes on one engine."""
    folder = prepare(_MODEL, _MODEL_FOLDER, progress=lambda line: print(line, file=sys.stderr))
    backend = VllmBackend(
        VllmOptions(
            model_name=_MODEL,
            model_folder=folder,
            partition=Partition(kind="cpu", devices=("0", "1")),
            max_context_tokens=4096,
            max_active_sequences=64,
            max_batched_tokens=2048,
            block_size_tokens=32,
            enforce_eager=True,
            kv_cache_gib=1,
            scheduler=scheduler,
        ),
        clock=_CLOCK,
    )
    await backend.start()
    bench = Bench(backend, FolderTokenizer(folder))
    done: dict[str, Any] = {}
    try:
        await bench.answer("hello", lane=Lane.REALTIME, new_tokens=4, salt="warm")
        await bench.answer(_LONG_TEXT, lane=Lane.BATCH, new_tokens=2, salt="warm")
        if alone:
            ordered = sorted(await bench.realtime_alone())
            done["rt_alone_p50_s"], done["rt_alone_p99_s"] = quantile(ordered, 0.5), quantile(ordered, 0.99)
            done["batch_alone_s"] = await bench.batch("alone")
        for mode in modes:
            await backend.control(settings_of(mode))
            done[mode] = (await bench.mixed(mode)).__dict__
            print(mode, done[mode], file=sys.stderr, flush=True)
            if scheduler == "class-aware":
                print(await backend.control({}), file=sys.stderr, flush=True)
    finally:
        await backend.stop()
    return done


def run_child(scheduler: SchedulerName, modes: Sequence[str], *, alone: bool) -> dict[str, Any]:
    """Run an engine's modes in a process of their own: vLLM reads its environment once."""
    command = [sys.executable, "-m", "bench.mixed_load", "--engine", scheduler, "--modes", ",".join(modes)]
    ended = subprocess.run([*command, *(["--alone"] if alone else [])], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def best_of_ours(modes: Mapping[str, Mapping[str, float]], *, rt_alone_s: float, batch_alone_s: float) -> str | None:
    """Return our mode that is nearest to, or furthest inside, both aims at once."""

    def worse_ratio(mode: str) -> float:
        realtime = modes[mode]["rt_p99_s"] / rt_alone_s / _AIM_REALTIME_RATIO
        return max(realtime, modes[mode]["batch_done_s"] / batch_alone_s / _AIM_BATCH_RATIO)

    ours = [mode for mode in modes if mode.startswith("twinlane/")]
    return min(ours, key=worse_ratio, default=None)


def compare(modes: Sequence[str]) -> dict[str, Any]:
    """Run every mode, grouped by engine."""
    report: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for place, scheduler in enumerate(("fcfs", "priority", "class-aware")):
        own = [mode for mode in modes if scheduler_of(mode) == scheduler]
        if own or place == 0:
            results |= run_child(scheduler, own, alone=place == 0)  # type: ignore[arg-type]
    for name in ("rt_alone_p50_s", "rt_alone_p99_s", "batch_alone_s"):
        report[name] = results.pop(name)
    best = best_of_ours(results, rt_alone_s=report["rt_alone_p99_s"], batch_alone_s=report["batch_alone_s"])
    report["modes"] = results | ({"twinlane": {**results[best], "setting": best}} if best else {})
    return report


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--modes", default=",".join((*STOCK_MODES, *OUR_MODES)))
    parser.add_argument("--engine", choices=("class-aware", "fcfs", "priority"), help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    modes = [mode for mode in arguments.modes.split(",") if mode]
    if arguments.engine:
        print(json.dumps(asyncio.run(run_engine(arguments.engine, modes, alone=arguments.alone))))
    else:
        print(json.dumps(compare(modes)))


if __name__ == "__main__":
    main()
