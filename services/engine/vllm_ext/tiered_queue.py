"""The hot and cold tiers in the place of vLLM's free queue, and what they learn from each request."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vllm.v1.core.kv_cache_utils import get_block_hash, get_group_id

from services.engine.policy.ghosts import GhostLists
from services.engine.policy.tiering import Purged, Tier, TieredFreeList, TierLimits

# Blocks aged in one step: keeps the cost of a step small; at ten steps a second 640 blocks a second age.
_AGED_PER_STEP = 64


class TieredBlockQueue:
    """Has the methods of vLLM's FreeKVCacheBlockQueue that its block pool calls, over the pool's KVCacheBlock objects."""

    def __init__(self, pool: Any, *, limits: TierLimits, on_evict: Callable[[Any, Tier], None]) -> None:
        self._blocks: Sequence[Any] = pool.blocks
        self.tiers = TieredFreeList(
            [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            total_blocks=pool.num_gpu_blocks,
            limits=limits,
            on_evict=lambda block_id, tier: on_evict(self._blocks[block_id], tier),
        )

    @property
    def num_free_blocks(self) -> int:
        """See TieredFreeList."""
        return self.tiers.num_free_blocks

    def popleft(self) -> Any:
        """See TieredFreeList."""
        return self._blocks[self.tiers.popleft()]

    def popleft_n(self, n: int) -> list[Any]:
        """See TieredFreeList."""
        blocks = self._blocks
        return [blocks[block_id] for block_id in self.tiers.popleft_n(n)]

    def remove(self, block: Any) -> None:
        """See TieredFreeList."""
        self.tiers.remove(block.block_id)

    def append(self, block: Any) -> None:
        """See TieredFreeList."""
        self.tiers.append(block.block_id)

    def append_n(self, blocks: Iterable[Any]) -> None:
        """See TieredFreeList."""
        self.tiers.append_n([block.block_id for block in blocks])

    def prepend_n(self, blocks: Iterable[Any]) -> None:
        """See TieredFreeList."""
        self.tiers.prepend_n([block.block_id for block in blocks])

    def get_all_free_blocks(self) -> list[Any]:
        """See TieredFreeList."""
        return [self._blocks[block_id] for block_id in self.tiers.get_all_free_blocks()]


@dataclass(slots=True, kw_only=True)
class CacheCounters:
    """Prompt tokens since the start: found in each tier, and those that a larger tier would have found."""

    hot_hit_tokens: int = 0
    cold_hit_tokens: int = 0
    hot_ghost_tokens: int = 0
    cold_ghost_tokens: int = 0
    hot_evicted_blocks: int = 0
    cold_evicted_blocks: int = 0
    reclaimed_blocks: int = 0


class CacheTiers:
    """Puts the tiers into a KVCacheManager and keeps them told. One owner: the scheduler."""

    def __init__(self, manager: Any, *, block_size_tokens: int, limits: TierLimits) -> None:
        self._manager = manager
        self._block_size = block_size_tokens
        pool = manager.block_pool
        self._ghosts = GhostLists(capacity=pool.num_gpu_blocks)
        self._queue = TieredBlockQueue(pool, limits=limits, on_evict=self._evicted)
        pool.free_block_queue = self._queue
        self.tiers = self._queue.tiers
        self.counters = CacheCounters()

    @property
    def ghost_entries(self) -> int:
        """Ghosts remembered, of both tiers."""
        return len(self._ghosts)

    def step(self, *, now_s: float) -> None:
        """Age the tiers."""
        self.tiers.now_s = now_s
        if emptied := self.tiers.decay(most=_AGED_PER_STEP):
            self._manager.evict_blocks(set(emptied))
            self.counters.reclaimed_blocks += len(emptied)

    def admitted(self, request: Any, *, cached_tokens: int) -> None:
        """Learn from a request that starts for the first time, with this much of its prompt found in the cache."""
        found = cached_tokens // self._block_size
        if found:
            hits = self._block_ids(request)[:found]
            hot = sum(1 for block_id in hits if self.tiers.is_hot(block_id))
            self.counters.hot_hit_tokens += hot * self._block_size
            self.counters.cold_hit_tokens += (found - hot) * self._block_size
            self.tiers.note_hits(hits)
        whole = request.num_prompt_tokens // self._block_size
        ghosts = self._ghosts.take_hits(request.block_hashes[found:whole])
        self.counters.hot_ghost_tokens += ghosts[Tier.HOT] * self._block_size
        self.counters.cold_ghost_tokens += ghosts[Tier.COLD] * self._block_size

    def keep_hot(self, request: Any) -> None:
        """Make the cached blocks of its prompt hot; called before its blocks are freed."""
        blocks = self._blocks(request)[: request.num_prompt_tokens // self._block_size]
        self.tiers.mark_hot([block.block_id for block in reversed(blocks) if block.block_hash is not None])

    def drop(self, request: Any, *, cached_tokens: int) -> None:
        """Take what this request alone computed out of the prefix cache; called before its blocks are freed."""
        own = self._blocks(request)[cached_tokens // self._block_size :]
        self._manager.evict_blocks({block.block_id for block in own if block.ref_cnt == 1 and block.block_hash is not None})

    def purge(self, *, share: float, tiers: frozenset[Tier]) -> Purged:
        """See TieredFreeList; the prefix cache forgets the blocks."""
        purged = self.tiers.purge(share=share, tiers=tiers)
        self._manager.evict_blocks({*purged.cold, *purged.hot})
        return purged

    def emptied(self) -> None:
        """Take notice that the prefix cache has forgotten everything."""
        self.tiers.purge(share=1.0, tiers=frozenset(Tier))

    def own_blocks(self, request: Any) -> int:
        """Return how many blocks would be free if this request gave way."""
        return sum(1 for block in self._blocks(request) if block.ref_cnt == 1)

    def allocated_blocks(self, request: Any) -> int:
        """Return how many blocks the request holds."""
        return len(self._blocks(request))

    def _evicted(self, block: Any, tier: Tier) -> None:
        if tier is Tier.HOT:
            self.counters.hot_evicted_blocks += 1
        else:
            self.counters.cold_evicted_blocks += 1
        key = block.block_hash
        if key is not None and get_group_id(key) == 0:
            self._ghosts.add(get_block_hash(key), tier)

    def _blocks(self, request: Any) -> list[Any]:
        groups = self._manager.get_blocks(request.request_id).blocks
        return [block for block in groups[0] if not block.is_null] if groups else []

    def _block_ids(self, request: Any) -> list[int]:
        return [block.block_id for block in self._blocks(request)]
