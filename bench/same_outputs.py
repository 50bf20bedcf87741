"""Whether the class-aware scheduler changes answers: greedy outputs against stock vLLM's.

    python -m bench.same_outputs [--prompts 200]

Mixed prompts (short and long, sharing prefixes, both lanes) are answered at temperature 0 by the stock engine at three
concurrencies, and by the class-aware one twice at one of them. bfloat16 sums depend on how a batch is put together, so stock
differs from itself; what counts is how often ours gives an answer that stock gives at no concurrency, beside how often stock
itself does so. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import random
from typing import Any

from bench.direct_engine import CLASS_AWARE, DirectEngine, EngineChoice
from libs.core.lanes import Lane
from services.engine.policy.request_tag import RequestTag

_STOCK_CONCURRENCIES = (1, 4, 16)
_OURS_CONCURRENCY = 8
_OURS_ROUNDS = 2
_ANSWER_TOKENS = 12
_VOCABULARY = range(1000, 40_000)
_SHARED_TOKENS = 100

Answers = list[tuple[int, ...]]


def make_prompts(count: int) -> list[list[int]]:
    """Return prompts of 8 to 700 tokens; every fourth begins like the others of its kind."""
    rng = random.Random(4)
    shared = rng.choices(_VOCABULARY, k=_SHARED_TOKENS)
    prompts = []
    for number in range(count):
        own = rng.choices(_VOCABULARY, k=rng.choice((8, 30, 120, 600)))
        prompts.append([*shared, *own] if number % 4 == 0 else own)
    return prompts


async def answers_of(engine: DirectEngine, prompts: list[list[int]], *, concurrency: int) -> Answers:
    """Answer every prompt, at most `concurrency` at once."""
    room = asyncio.Semaphore(concurrency)

    async def one(number: int) -> tuple[int, ...]:
        lane = Lane.REALTIME if number % 3 == 0 else Lane.BATCH
        async with room:
            return (await engine.answer(prompts[number], max_tokens=_ANSWER_TOKENS, tag=RequestTag(lane=lane))).token_ids

    return list(await asyncio.gather(*(one(number) for number in range(len(prompts)))))


async def engine_answers(choice: EngineChoice, prompts: list[list[int]], concurrencies: tuple[int, ...]) -> list[Answers]:
    """Start an engine and answer all prompts once at each concurrency."""
    engine = DirectEngine(choice)
    try:
        return [await answers_of(engine, prompts, concurrency=concurrency) for concurrency in concurrencies]
    finally:
        await engine.stop()


def differing(answers: Answers, accepted: list[Answers]) -> int:
    """Count the answers that are none of the accepted ones for their prompt."""
    return sum(all(answer != other[number] for other in accepted) for number, answer in enumerate(answers))


async def run(prompt_count: int) -> dict[str, Any]:
    """Run the benchmark and return its report."""
    prompts = make_prompts(prompt_count)
    stock = await engine_answers(EngineChoice(max_active_sequences=16), prompts, _STOCK_CONCURRENCIES)
    ours = await engine_answers(
        EngineChoice(scheduler_cls=CLASS_AWARE, max_active_sequences=16), prompts, (_OURS_CONCURRENCY,) * _OURS_ROUNDS
    )
    agreed = [number for number in range(prompt_count) if len({answers[number] for answers in stock}) == 1]
    return {
        "prompts": prompt_count,
        "ours_differing_from_stock": [differing(answers, stock) for answers in ours],
        "stock_differing_from_its_other_runs": [
            differing(answers, [other for other in stock if other is not answers]) for answers in stock
        ],
        "prompts_on_which_stock_agrees": len(agreed),
        "ours_differing_where_stock_agrees": [sum(answers[n] != stock[0][n] for n in agreed) for answers in ours],
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.same_outputs")
    parser.add_argument("--prompts", type=int, default=200)
    print(json.dumps(asyncio.run(run(parser.parse_args().prompts))))


if __name__ == "__main__":
    main()
