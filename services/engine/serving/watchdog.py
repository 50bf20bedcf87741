"""Watches that steps go on while work is queued."""

import asyncio

from libs.core.clock import Clock
from services.engine.backend.base import Backend
from services.engine.policy.progress import Progress, ProgressReading, judge
from services.engine.serving.ledger import Ledger
from services.engine.serving.life import Life

# Looks per stall limit: a stall is noticed at most a quarter late.
_LOOKS_PER_STALL = 4
_MAX_LOOK_INTERVAL_S = 1.0


async def watch_progress(backend: Backend, ledger: Ledger, life: Life, *, clock: Clock, stall_s: float) -> None:
    """Tell `life` of stalls and of their end, until cancelled."""
    progress = Progress(steps_total=backend.snapshot().steps_total, standing_since_s=clock.monotonic_s())
    while True:
        await asyncio.sleep(min(stall_s / _LOOKS_PER_STALL, _MAX_LOOK_INTERVAL_S))
        reading = ProgressReading(
            now_s=clock.monotonic_s(), steps_total=backend.snapshot().steps_total, in_flight=ledger.working
        )
        progress = judge(progress, reading, stall_s=stall_s)
        if progress.stalled != life.facts.stalled:
            words = f"no step for {stall_s} s with work queued" if progress.stalled else "steps go on"
            life.learn(reason=words, stalled=progress.stalled)
