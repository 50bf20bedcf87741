"""Every knob of the class-aware scheduler turned under load, and what the answers show of it.

    python -m bench.live_tuning [--changes 100]

A fixed set of prompts of both lanes is answered at temperature 0: three times without changes, then over and over while each
knob is set `--changes` times to another value. Nothing may fail, and answers must be those without changes; where the model
itself answers differently from one batch to another (bfloat16 sums depend on the batch), the runs without changes show it. The
last line is one JSON object.
"""

import argparse
import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any

from bench.direct_engine import CLASS_AWARE, DirectEngine, EngineChoice
from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from services.engine.policy.request_tag import RequestTag

_PROMPTS = 24
_CONCURRENCY = 8
_PROMPT_TOKENS = (8, 200)
_ANSWER_TOKENS = 16
_VOCABULARY = range(1000, 40_000)
_CLOCK = SystemClock()
# Two or more values for each knob, as far apart as anybody would set them.
KNOBS: dict[str, tuple[Any, ...]] = {
    "max_active_sequences": (2, 16, 8),
    "max_batched_tokens": (64, 2048),
    "realtime_step_s": (0.03, 0.3),
    "idle_step_s": (0.05, 1.0),
    "prefill_chunk_tokens": (16, 512),
    "batch_min_share_ratio": (0.0, 0.5),
    "realtime_reserved_slots": (0, 4),
    "hot_cache_ratio": (0.0, 0.4),
    "hot_cache_min_blocks": (0, 50),
    "hot_retention_s": (0.0, 900.0),
    "cold_retention_s": (0.0, 120.0),
    "cold_reclaim_ratio": (0.0, 0.8),
    "static_batching": (True, False),
}

Answers = dict[int, tuple[int, ...]]


@dataclass(kw_only=True)
class Count:
    """What the rounds under changes showed."""

    answered: int = 0
    failed: int = 0
    differing: int = 0
    changes: int = 0
    not_applied: int = 0
    slowest_change_s: float = 0.0
    prompts_differing: set[int] = field(default_factory=set)


class Load:
    """The prompts and their answers. All bypass the prefix cache, so that each round computes the same."""

    def __init__(self, engine: DirectEngine) -> None:
        rng = random.Random(3)
        self._engine = engine
        self._prompts = [rng.choices(_VOCABULARY, k=rng.randrange(*_PROMPT_TOKENS)) for _ in range(_PROMPTS)]
        self._room = asyncio.Semaphore(_CONCURRENCY)

    async def answer(self, number: int) -> tuple[int, ...]:
        """Answer one prompt; every third is realtime."""
        lane = Lane.REALTIME if number % 3 == 0 else Lane.BATCH
        async with self._room:
            tag = RequestTag(lane=lane, bypass_prefix_cache=True)
            return (await self._engine.answer(self._prompts[number], max_tokens=_ANSWER_TOKENS, tag=tag)).token_ids

    async def round(self) -> Answers:
        """Answer all."""
        return dict(enumerate(await asyncio.gather(*(self.answer(number) for number in range(_PROMPTS)))))


async def turn_knobs(engine: DirectEngine, changes: int, count: Count) -> None:
    """Set every knob `changes` times, one after the other, each at a step boundary of its own."""
    for turn in range(changes):
        for name, values in KNOBS.items():
            value = values[turn % len(values)]
            begun_s = _CLOCK.monotonic_s()
            held = (await engine.order({"set": {name: value}}))["set"]
            count.slowest_change_s = max(count.slowest_change_s, _CLOCK.monotonic_s() - begun_s)
            count.changes += 1
            if held["tuning"][name] != value and name not in held["clamped_fields"]:
                count.not_applied += 1


async def rounds_until(done: "asyncio.Task[None]", load: Load, accepted: list[Answers], count: Count) -> None:
    """Answer the prompts again and again, at least once, and compare with what was answered without changes."""
    while True:
        for number, result in enumerate(
            await asyncio.gather(*(load.answer(number) for number in range(_PROMPTS)), return_exceptions=True)
        ):
            if isinstance(result, BaseException):
                count.failed += 1
                continue
            count.answered += 1
            if all(result != answers[number] for answers in accepted):
                count.differing += 1
                count.prompts_differing.add(number)
        if done.done():
            await done
            return


async def run(changes: int) -> dict[str, Any]:
    """Run the benchmark and return its report."""
    engine = DirectEngine(EngineChoice(scheduler_cls=CLASS_AWARE, max_active_sequences=16))
    try:
        load = Load(engine)
        first, second = await load.round(), await load.round()
        alone = {number: await load.answer(number) for number in range(_PROMPTS)}
        count = Count()
        turning = asyncio.create_task(turn_knobs(engine, changes, count))
        await rounds_until(turning, load, [first, second, alone], count)
        restored = (await engine.order({"restore": True, "read": True}))["read"]
    finally:
        await engine.stop()
    return {
        "changes": count.changes,
        "not_applied": count.not_applied,
        "slowest_change_s": round(count.slowest_change_s, 3),
        "answered": count.answered,
        "failed": count.failed,
        "differing": count.differing,
        "prompts_differing": len(count.prompts_differing),
        "prompts": _PROMPTS,
        "prompts_differing_without_changes": sum(len({first[n], second[n], alone[n]}) > 1 for n in range(_PROMPTS)),
        "preemptions": restored["batch_preemptions"] + restored["realtime_preemptions"],
        "left_running": sum(lane["running"] + lane["waiting"] for lane in restored["lanes"].values()),
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.live_tuning")
    parser.add_argument("--changes", type=int, default=100, help="of each knob")
    print(json.dumps(asyncio.run(run(parser.parse_args().changes))))


if __name__ == "__main__":
    main()
