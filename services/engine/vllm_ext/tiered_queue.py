"""vLLM's queue of free cache blocks in two tiers: cold blocks are reused first, hot ones only when nothing else is left.

Takes the place of `BlockPool.free_block_queue` and has its methods. Each tier is one of vLLM's own linked lists, so every
operation costs what it did.
"""

from collections.abc import Callable
from typing import Any

from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue

from services.engine.policy.tiering import GhostList, Hotness, Tier, TierRules, ghost_capacity, purge_counts


class TieredFreeQueue:
    """Owner of the free blocks. `protect_hot`: act as if hot blocks were not free (while batch work allocates);
    `discard`: blocks freed now are of no further use (while a one-shot request's are freed)."""

    def __init__(self, free: Any, *, total_blocks: int, rules: TierRules, now_s: Callable[[], float]) -> None:
        """Take over every block of `free`, vLLM's own queue."""
        self._total_blocks = total_blocks
        self._now_s = now_s
        self._cold = FreeKVCacheBlockQueue(free.get_all_free_blocks())
        self._hot = FreeKVCacheBlockQueue([])
        self._hot_ids: set[int] = set()
        self.hotness = Hotness(total_blocks, rules)
        self.ghosts = {tier: GhostList(ghost_capacity(total_blocks)) for tier in Tier}
        self.evicted_total = dict.fromkeys(Tier, 0)
        self.reused_total = dict.fromkeys(Tier, 0)
        self.protect_hot = False
        self.discard = False

    @property
    def hot_blocks(self) -> int:
        """Free hot blocks."""
        return int(self._hot.num_free_blocks)

    @property
    def cold_blocks(self) -> int:
        """Free cold blocks, empty ones included."""
        return int(self._cold.num_free_blocks)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that may be allocated now."""
        return self.cold_blocks if self.protect_hot else self.cold_blocks + self.hot_blocks

    def popleft(self) -> Any:
        """Take one block."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[Any]:
        """Take `n` blocks, the cold first. The caller has checked that they are there."""
        from_cold = min(n, self.cold_blocks)
        taken: list[Any] = self._cold.popleft_n(from_cold)
        self._note_evicted(taken, Tier.COLD)
        if from_cold < n:
            hot = self._hot.popleft_n(n - from_cold)
            self._hot_ids.difference_update(block.block_id for block in hot)
            self._note_evicted(hot, Tier.HOT)
            taken = [*taken, *hot]
        return taken

    def remove(self, block: Any) -> None:
        """A cached block is used again."""
        tier = Tier.HOT if block.block_id in self._hot_ids else Tier.COLD
        self.reused_total[tier] += 1
        if tier is Tier.HOT:
            self._hot_ids.discard(block.block_id)
            self._hot.remove(block)
        else:
            self._cold.remove(block)
        if block.block_hash is not None:
            self.hotness.used(block.block_hash, self._now_s())

    def append(self, block: Any) -> None:
        """Take one block back."""
        self.append_n([block])

    def append_n(self, blocks: list[Any]) -> None:
        """Take blocks back that hold cached tokens, those to be evicted first in front."""
        if self.discard:
            self._cold.prepend_n(blocks)
            return
        now_s, quota = self._now_s(), self.hotness.rules.hot_quota(self._total_blocks)
        cold = []
        for block in blocks:
            self._note_recomputed(block)
            if block.block_hash is None or self.hotness.tier(block.block_hash, now_s) is Tier.COLD or quota == 0:
                cold.append(block)
                continue
            self._hot.append(block)
            self._hot_ids.add(block.block_id)
        self._cold.append_n(cold)
        self._cool_down(quota)

    def prepend_n(self, blocks: list[Any]) -> None:
        """Take blocks back that hold nothing."""
        self._cold.prepend_n(blocks)

    def get_all_free_blocks(self) -> list[Any]:
        """Return every free block, in the order of eviction."""
        return [*self._cold.get_all_free_blocks(), *self._hot.get_all_free_blocks()]

    def set_rules(self, rules: TierRules) -> None:
        """Change the rules; hot blocks over the new quota become cold at once."""
        self.hotness.rules = rules
        self._cool_down(rules.hot_quota(self._total_blocks))

    def purgeable(self, share: float, tiers: frozenset[Tier]) -> list[int]:
        """Return the ids of cached free blocks that a purge of `share` of these tiers takes, the coldest first."""
        cold = [b.block_id for b in self._cold.get_all_free_blocks() if b.block_hash is not None] if Tier.COLD in tiers else []
        hot = [block.block_id for block in self._hot.get_all_free_blocks()] if Tier.HOT in tiers else []
        from_cold, from_hot = purge_counts(share=share, cold=len(cold), hot=len(hot))
        return [*cold[:from_cold], *hot[:from_hot]]

    def check_integrity(self) -> None:
        """Raise AssertionError where lists and counts contradict each other."""
        hot = {block.block_id for block in self._hot.get_all_free_blocks()}
        cold = {block.block_id for block in self._cold.get_all_free_blocks()}
        if hot != self._hot_ids or hot & cold:
            raise AssertionError(f"hot list {sorted(hot)} is not the hot set {sorted(self._hot_ids)}, or meets the cold one")
        if len(hot) != self.hot_blocks or len(cold) != self.cold_blocks:
            raise AssertionError(
                f"{len(hot)} hot and {len(cold)} cold blocks; counted {self.hot_blocks} and {self.cold_blocks}"
            )

    def _cool_down(self, quota: int) -> None:
        """Move the longest unused hot blocks over the quota to the end of the cold list."""
        while self.hot_blocks > quota:
            block = self._hot.popleft()
            self._hot_ids.discard(block.block_id)
            self._cold.append(block)

    def _note_evicted(self, blocks: list[Any], tier: Tier) -> None:
        for block in blocks:
            if block.block_hash is not None:
                self.evicted_total[tier] += 1
                self.ghosts[tier].evicted(block.block_hash)
                self.hotness.forget(block.block_hash)

    def _note_recomputed(self, block: Any) -> None:
        """A freed block whose content had been evicted was computed once more: a larger tier would have had it."""
        if block.block_hash is not None:
            for ghosts in self.ghosts.values():
                ghosts.asked_for(block.block_hash)
