"""What a simulated engine does in its next step: continuous batching with chunked prefill.

Decodes come first, one token each; then started prompts, oldest first; then waiting requests, as long as a slot, the blocks
of their whole life and budget are left. Blocks are reserved at admission, so nothing is ever preempted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class WaitingView(NamedTuple):
    """Head of the queue: prompt tokens to compute (at least 1), and free blocks that its whole life takes."""

    prefill_tokens: int
    blocks: int


@dataclass(frozen=True, kw_only=True)
class StepView:
    """State at a step boundary. `waiting` is read only as far as requests are admitted, plus one."""

    decoding: int
    # Prompt tokens still to compute of each started prompt, oldest first.
    prefilling: Sequence[int]
    waiting: Iterable[WaitingView]
    max_active_sequences: int
    max_batched_tokens: int
    free_blocks: int


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """Decodes to run, tokens for each started prompt (0: none this time), tokens for each admitted request in queue order."""

    decodes: int
    prefill_tokens: tuple[int, ...]
    admitted_tokens: tuple[int, ...]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the step."""
        return sum(self.prefill_tokens) + sum(self.admitted_tokens)


def plan_step(view: StepView) -> StepPlan:
    """Fill one step up to `max_batched_tokens`."""
    decodes = min(view.decoding, view.max_batched_tokens)
    budget = view.max_batched_tokens - decodes
    chunks = []
    for left in view.prefilling:
        chunk = min(left, budget)
        budget -= chunk
        chunks.append(chunk)
    slots = view.max_active_sequences - view.decoding - len(view.prefilling)
    return StepPlan(
        decodes=decodes,
        prefill_tokens=tuple(chunks),
        admitted_tokens=_admit(view.waiting, slots=slots, budget=budget, free_blocks=view.free_blocks),
    )


def _admit(waiting: Iterable[WaitingView], *, slots: int, budget: int, free_blocks: int) -> tuple[int, ...]:
    """Admit from the head until something is short; a request that does not fit holds back those behind it."""
    admitted: list[int] = []
    if slots <= 0 or budget <= 0:
        return ()
    for view in waiting:
        if view.blocks > free_blocks:
            break
        free_blocks -= view.blocks
        chunk = min(view.prefill_tokens, budget)
        budget -= chunk
        admitted.append(chunk)
        if len(admitted) >= slots or budget <= 0:
            break
    return tuple(admitted)
