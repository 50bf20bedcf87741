"""Does a hot prefix survive batch floods? Twinlane's tiered cache against vLLM's own.

    python -m bench.hot_prefix

On one real engine each: a prefix of 500 tokens is used by a few realtime requests, then three floods of batch prompts, each
larger than the whole cache, pass; after each one more realtime request asks for the prefix. The last line is one JSON object:
the share of the prefix's cacheable tokens (whole blocks) that were found, and the time to first token, for both.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from libs.core.clock import SystemClock
from libs.core.lanes import Lane
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.domain import BackendRequest, Partition, VllmOptions
from services.engine.model.prepare import prepare

_CLOCK = SystemClock()
_MODEL = "smollm2-135m"
_MODEL_FOLDER = Path("var/models") / _MODEL
_BLOCK_TOKENS = 32
_KV_BLOCKS = 160
_PREFIX_TOKENS = 500
_TAIL_TOKENS = 20
_FLOODS = 3
_FLOOD_PROMPTS = 8
_FLOOD_PROMPT_TOKENS = 1000

Scheduler = Literal["class-aware", "fcfs"]


class Bench:
    """One engine and its requests. Prompts are made-up tokens: what counts is their number."""

    def __init__(self, backend: VllmBackend) -> None:
        self._backend = backend
        self._count = 0

    async def ask(self, token_ids: list[int], *, lane: Lane, hot: bool = False) -> tuple[int, float]:
        """Run one request; returns its cached tokens and the seconds to its first token."""
        self._count += 1
        request = BackendRequest(
            request_id=f"r{self._count}", token_ids=token_ids, lane=lane, max_new_tokens=2, ignore_eos=True, hot=hot
        )
        begun_s, first_s, cached = _CLOCK.monotonic_s(), None, 0
        async for chunk in self._backend.generate(request):
            if first_s is None:
                first_s, cached = _CLOCK.monotonic_s() - begun_s, chunk.cached_tokens
        assert first_s is not None
        return cached, first_s

    async def realtime(self, number: int) -> tuple[int, float]:
        """Ask with the shared prefix and a tail of its own."""
        prefix = [1000 + place % 700 for place in range(_PREFIX_TOKENS)]
        return await self.ask([*prefix, *range(2000 + number, 2000 + number + _TAIL_TOKENS)], lane=Lane.REALTIME, hot=True)

    async def flood(self, number: int) -> None:
        """Batch prompts larger than the cache."""
        prompts = [
            [3000 + (number * 101 + prompt * 7 + place * 3) % 9000 for place in range(_FLOOD_PROMPT_TOKENS)]
            for prompt in range(_FLOOD_PROMPTS)
        ]
        await asyncio.gather(*(self.ask(prompt, lane=Lane.BATCH) for prompt in prompts))


async def run(scheduler: Scheduler) -> dict[str, float]:
    """Measure one scheduler."""
    folder = prepare(_MODEL, _MODEL_FOLDER, progress=lambda line: print(line, file=sys.stderr))
    options = VllmOptions(
        model_name=_MODEL,
        model_folder=folder,
        partition=Partition(kind="cpu", devices=("0", "1")),
        max_context_tokens=2048,
        max_active_sequences=16,
        max_batched_tokens=1024,
        block_size_tokens=_BLOCK_TOKENS,
        enforce_eager=True,
        kv_cache_gib=1,
        kv_blocks=_KV_BLOCKS,
        scheduler=scheduler,
    )
    backend = VllmBackend(options, clock=_CLOCK)
    await backend.start()
    bench = Bench(backend)
    try:
        for number in range(3):
            await bench.realtime(number)
        found, first_s = [], []
        for number in range(_FLOODS):
            await bench.flood(number)
            cached, took_s = await bench.realtime(10 + number)
            found.append(cached)
            first_s.append(took_s)
            print(scheduler, cached, took_s, await backend.control({}), file=sys.stderr)
    finally:
        await backend.stop()
    cacheable = _PREFIX_TOKENS // _BLOCK_TOKENS * _BLOCK_TOKENS
    return {"hot_hit_ratio": mean(found) / cacheable, "ttft_s": mean(first_s)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("class-aware", "fcfs"), help=argparse.SUPPRESS)
    engine: Scheduler | None = parser.parse_args().engine
    if engine is not None:
        print(json.dumps(asyncio.run(run(engine))))
        return
    results: dict[str, Any] = {}
    for name, scheduler in (("twinlane", "class-aware"), ("stock", "fcfs")):
        command = [sys.executable, "-m", "bench.hot_prefix", "--engine", scheduler]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results[name] = json.loads(ended.stdout.splitlines()[-1])
    print(
        json.dumps(
            {key: {name: round(result[key], 3) for name, result in results.items()} for key in ("hot_hit_ratio", "ttft_s")}
        )
    )


if __name__ == "__main__":
    main()
