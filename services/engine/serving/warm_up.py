"""Requests that the engine runs for itself before it serves: the first callers get no first-time costs."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

from libs.core.lanes import Lane
from services.engine.backend.base import Backend
from services.engine.domain import BackendLostError, BackendRequest, Limits

# Ids this small exist in every vocabulary but a toy one.
_TOKEN_ID_BOUND = 100
_PROMPT_TOKENS = 32
# No caller can give this salt: a router's begin with the tenant.
_SALT = "\x00warm-up"


@dataclass(frozen=True, kw_only=True)
class WarmUpPlan:
    """How many requests, how many tokens each generates, and how many run at once."""

    requests: int
    tokens: int
    max_concurrency: int


async def warm_up(backend: Backend, limits: Limits, plan: WarmUpPlan, random: Random) -> None:
    """Run the plan to its end. Raises BackendLostError."""
    requests = iter([_request(number, limits, plan, random) for number in range(plan.requests)])

    async def run_next() -> None:
        for request in requests:
            await _run(backend, request)

    lost: BackendLostError | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(plan.max_concurrency, plan.requests)):
                group.create_task(run_next())
    except* BackendLostError as errors:
        lost = BackendLostError(str(errors.exceptions[0]))
    if lost is not None:
        raise lost


async def _run(backend: Backend, request: BackendRequest) -> None:
    async with aclosing(backend.generate(request)) as chunks:
        async for _ in chunks:
            pass


def _request(number: int, limits: Limits, plan: WarmUpPlan, random: Random) -> BackendRequest:
    prompt_tokens = max(1, min(_PROMPT_TOKENS, limits.max_context_tokens - plan.tokens))
    return BackendRequest(
        request_id=f"warm-up-{number}",
        token_ids=[random.randrange(1, _TOKEN_ID_BOUND) for _ in range(prompt_tokens)],
        lane=Lane.BATCH,
        max_new_tokens=min(plan.tokens, limits.max_context_tokens - prompt_tokens),
        ignore_eos=True,
        cache_salt=_SALT,
    )
