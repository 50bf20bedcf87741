"""What is left of a shared prefix after floods of batch prompts larger than the cache.

    python -m bench.hot_prefix

A 500-token prefix is asked for, then three floods of batch prompts, each larger than the whole cache, go through, and after
each one the prefix is asked for again. Modes: stock vLLM, twinlane (the request asks for the hot tier) and learned (it does
not, but the prefix was used three times before). The last line is one JSON object: prompt tokens found in the cache as a share
of the prefix, the mean over the floods, and the mean time to the first token.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
from statistics import mean
from typing import Any

from bench.direct_engine import CLASS_AWARE, DirectEngine, EngineChoice
from libs.core.lanes import Lane
from services.engine.policy.request_tag import RequestTag

_MODES = ("stock", "twinlane", "learned")
_PREFIX_TOKENS = 500
_QUESTION_TOKENS = 8
_FLOODS = 3
_FLOOD_PROMPTS = 6
_FLOOD_PROMPT_TOKENS = 1000
# 5,120 tokens: less than one flood.
_KV_BLOCKS = 160
_VOCABULARY = range(1000, 40_000)
_WARM_UPS = 3


async def run_mode(mode: str) -> dict[str, Any]:
    """Run one mode in this process."""
    rng = random.Random(2)
    engine = DirectEngine(EngineChoice(scheduler_cls=None if mode == "stock" else CLASS_AWARE, kv_blocks=_KV_BLOCKS))
    prefix = rng.choices(_VOCABULARY, k=_PREFIX_TOKENS)
    tag = RequestTag(lane=Lane.REALTIME, hot=mode == "twinlane")

    async def ask() -> tuple[float, float]:
        answer = await engine.answer([*prefix, *rng.choices(_VOCABULARY, k=_QUESTION_TOKENS)], max_tokens=2, tag=tag)
        return answer.cached_tokens / _PREFIX_TOKENS, answer.first_token_s

    async def flood() -> None:
        prompts = [rng.choices(_VOCABULARY, k=_FLOOD_PROMPT_TOKENS) for _ in range(_FLOOD_PROMPTS)]
        await asyncio.gather(*(engine.answer(one, max_tokens=2, tag=RequestTag(lane=Lane.BATCH)) for one in prompts))

    try:
        for _ in range(_WARM_UPS):
            await ask()
        results = []
        for _ in range(_FLOODS):
            await flood()
            results.append(await ask())
    finally:
        await engine.stop()
    return {"hit_ratio": mean(ratio for ratio, _ in results), "ttft_s": mean(seconds for _, seconds in results)}


def run_child(mode: str) -> dict[str, Any]:
    """Run one mode in a process of its own. Raises CalledProcessError where it fails."""
    command = [sys.executable, "-m", "bench.hot_prefix", "--child", mode]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{mode:10} {json.dumps(result)}", flush=True)
    return result


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.hot_prefix")
    parser.add_argument("--child", choices=_MODES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(asyncio.run(run_mode(arguments.child))))
        return
    results = {mode: run_child(mode) for mode in _MODES}
    print(
        json.dumps(
            {
                "hot_hit_ratio": {mode: round(result["hit_ratio"], 4) for mode, result in results.items()},
                "ttft_s": {mode: round(result["ttft_s"], 4) for mode, result in results.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
