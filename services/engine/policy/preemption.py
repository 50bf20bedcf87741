"""Which batch requests give way when realtime work finds no slot or no cache blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

# Each preemption throws work away: this many a second, and as many at once, are borne for realtime's sake.
PREEMPTIONS_PER_S = 4.0
PREEMPTION_BURST = 8


@dataclass(frozen=True, kw_only=True)
class VictimView:
    """A running background request that may be stopped. `order_key`: see ordering.background_key."""

    request_id: str
    computed_tokens: int
    # Full blocks of it that no other request uses: they are freed by stopping it, and stay in the prefix cache while unused.
    own_blocks: int
    order_key: float


@dataclass(frozen=True, kw_only=True)
class Need:
    """What realtime work is short of, and the blocks that are free."""

    slots: int
    blocks: int
    free_blocks: int
    block_size_tokens: int


def lost_tokens(view: VictimView, *, taken_blocks: int, block_size_tokens: int) -> int:
    """Return the computed tokens that must be computed again if this request is stopped and `taken_blocks` of its blocks are
    used by others before it goes on. Its last, unfilled block is always lost."""
    kept_blocks = max(view.computed_tokens // block_size_tokens - taken_blocks, 0)
    return view.computed_tokens - kept_blocks * block_size_tokens


def choose_victims(views: Sequence[VictimView], need: Need, *, allowed: int) -> tuple[str, ...]:
    """Return who gives way, first victim first: the fewest tokens lost, then the last in order. At most `allowed` of them, and
    nobody where all together would not free what is needed (then stopping them gains nothing)."""
    missing_blocks = max(need.blocks - need.free_blocks, 0)
    if (need.slots <= 0 and missing_blocks == 0) or allowed <= 0:
        return ()
    ranked = sorted(views, key=lambda view: (_loss(view, missing_blocks, need.block_size_tokens), -view.order_key))
    chosen: list[str] = []
    freed = 0
    for view in ranked[:allowed]:
        if len(chosen) >= need.slots and freed >= missing_blocks:
            break
        chosen.append(view.request_id)
        freed += view.own_blocks
    return tuple(chosen) if freed >= missing_blocks else ()


def victim_ranks(views: Sequence[VictimView], *, block_size_tokens: int) -> dict[str, int]:
    """Return for each request the order in which background work is stopped when it is short of blocks itself: the highest
    rank first, from 1. The one that has the most to lose goes last, so that one of them always ends."""
    by_loss = sorted(views, key=lambda view: (-_loss(view, view.own_blocks, block_size_tokens), view.order_key))
    return {view.request_id: rank for rank, view in enumerate(by_loss, start=1)}


def _loss(view: VictimView, taken_blocks: int, block_size_tokens: int) -> int:
    return lost_tokens(view, taken_blocks=taken_blocks, block_size_tokens=block_size_tokens)
