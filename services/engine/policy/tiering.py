"""Free cache blocks in two tiers: what batch leaves behind goes first, hot prefixes stay within their quota.

Every free block is in one of three lists: `blank` (holds nothing worth keeping, used first), `cold` (least recently used goes
first) and `hot` (the same, touched last). A block is hot by request, or because it was hit again and again within a window. Its
owner is vLLM's block pool; blocks in use are in no list. Blocks of one prompt come in with the tail of the chain first, and
every move between lists keeps that order, so that no block goes before those that need it to be of use.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

# A block hit this often within the window of the tier limits is promoted: once may be a retry, twice is a pattern.
PROMOTION_HITS = 2


class Tier(Enum):
    """Where a cached block is kept."""

    HOT = "hot"
    COLD = "cold"


@dataclass(frozen=True, kw_only=True)
class TierLimits:
    """Rules of the tiers. `hot_blocks`: most idle blocks kept hot. Retentions: idle seconds after which a hot block becomes
    cold, and a cold one may be emptied once the share of blocks that hold something reaches `reclaim_ratio` (0 to 1)."""

    hot_blocks: int
    hot_retention_s: float = 900.0
    cold_retention_s: float = 120.0
    reclaim_ratio: float = 0.8
    reuse_window_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Purged:
    """Blocks that a purge emptied, by tier, coldest first."""

    cold: tuple[int, ...]
    hot: tuple[int, ...]


def hot_quota(*, total_blocks: int, hot_ratio: float, min_hot_blocks: int) -> int:
    """Return how many idle blocks may be hot: the share of all, at least the minimum, never all."""
    return max(min(max(int(total_blocks * hot_ratio), min_hot_blocks), total_blocks - 1), 0)


class TieredFreeList:
    """The free list. Method names and meanings are those of vLLM's FreeKVCacheBlockQueue, over block numbers.

    `on_evict(block, tier)` is called for each cached block that is handed out for new content. While `shield_hot` is set, hot
    blocks neither count as free nor are handed out.
    """

    def __init__(
        self, blocks: Iterable[int], *, total_blocks: int, limits: TierLimits, on_evict: Callable[[int, Tier], None]
    ) -> None:
        self._blank: OrderedDict[int, float] = OrderedDict((block, 0.0) for block in blocks)
        self._cold: OrderedDict[int, float] = OrderedDict()
        self._hot: OrderedDict[int, float] = OrderedDict()
        self._total_blocks = total_blocks
        self._limits = limits
        self._on_evict = on_evict
        self._hot_tags: set[int] = set()
        self._reuse: dict[int, tuple[int, float]] = {}
        self.shield_hot = False
        self.now_s = 0.0

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be handed out now."""
        free = len(self._blank) + len(self._cold)
        return free if self.shield_hot else free + len(self._hot)

    @property
    def blank_blocks(self) -> int:
        """Free blocks that hold nothing."""
        return len(self._blank)

    @property
    def cold_blocks(self) -> int:
        """Idle cached blocks in the cold tier."""
        return len(self._cold)

    @property
    def hot_blocks(self) -> int:
        """Idle cached blocks in the hot tier."""
        return len(self._hot)

    def popleft(self) -> int:
        """Hand out the block whose content is worth least. Raises ValueError where none is free."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[int]:
        """Hand out n blocks, worth least first. Raises ValueError where fewer are free."""
        if n > self.num_free_blocks:
            raise ValueError(f"{n} blocks asked for, {self.num_free_blocks} are free")
        taken = [self._blank.popitem(last=False)[0] for _ in range(min(n, len(self._blank)))]
        while len(taken) < n:
            source, tier = (self._cold, Tier.COLD) if self._cold else (self._hot, Tier.HOT)
            block, _ = source.popitem(last=False)
            self._on_evict(block, tier)
            self._forget(block)
            taken.append(block)
        return taken

    def remove(self, block: int) -> None:
        """Take a block out, because its content is used again. Raises KeyError where it is not free."""
        for queue in (self._cold, self._hot, self._blank):
            if block in queue:
                del queue[block]
                return
        raise KeyError(f"block {block} is not free")

    def append(self, block: int) -> None:
        """Put back a block whose content is worth keeping."""
        self.append_n((block,))

    def append_n(self, blocks: Sequence[int]) -> None:
        """Put back blocks whose content is worth keeping, tail of the chain first. What exceeds the hot quota goes cold."""
        for block in blocks:
            (self._hot if block in self._hot_tags else self._cold)[block] = self.now_s
        self._keep_quota()

    def prepend_n(self, blocks: Sequence[int]) -> None:
        """Put back blocks that hold nothing; the first is handed out next."""
        for block in reversed(blocks):
            self._forget(block)
            self._blank[block] = self.now_s
            self._blank.move_to_end(block, last=False)

    def get_all_free_blocks(self) -> list[int]:
        """Return every free block in the order in which they would be handed out."""
        return [*self._blank, *self._cold, *self._hot]

    def mark_hot(self, blocks: Iterable[int]) -> None:
        """Make blocks hot, in use or idle, until they decay or are handed out. Order: tail of the chain first. Those that hold
        nothing stay as they are."""
        for block in blocks:
            if block in self._blank:
                continue
            self._hot_tags.add(block)
            if self._cold.pop(block, None) is not None:
                self._hot[block] = self.now_s
        self._keep_quota()

    def note_hits(self, blocks: Iterable[int]) -> None:
        """Learn that these blocks were found in the cache; those hit again within the window become hot. Order: head of
        the chain first."""
        promoted = []
        for block in blocks:
            hits, last_s = self._reuse.get(block, (0, -math.inf))
            hits = hits + 1 if self.now_s - last_s <= self._limits.reuse_window_s else 1
            self._reuse[block] = (hits, self.now_s)
            if hits >= PROMOTION_HITS:
                promoted.append(block)
        self.mark_hot(reversed(promoted))

    def is_hot(self, block: int) -> bool:
        """Return whether the block is kept hot, or will be once it is idle."""
        return block in self._hot_tags

    def set_limits(self, limits: TierLimits) -> None:
        """Change the rules; idle hot blocks over the new quota go cold."""
        self._limits = limits
        self._keep_quota()

    def decay(self, *, most: int) -> list[int]:
        """Age the tiers at `now_s`; return the blocks that were emptied, at most `most`: their owner forgets their content."""
        oldest_s = self.now_s - self._limits.hot_retention_s
        for _ in range(min(most, len(self._hot))):
            if self._hot[next(iter(self._hot))] > oldest_s:
                break
            self._cool_oldest()
        return self._reclaim(most)

    def purge(self, *, share: float, tiers: frozenset[Tier]) -> Purged:
        """Empty a share (0 to 1, rounded up) of the idle cached blocks of these tiers, coldest first."""
        cold = len(self._cold) if Tier.COLD in tiers else 0
        hot = len(self._hot) if Tier.HOT in tiers else 0
        wanted = math.ceil((cold + hot) * min(max(share, 0.0), 1.0))
        from_cold = self._empty(self._cold, min(wanted, cold))
        return Purged(cold=tuple(from_cold), hot=tuple(self._empty(self._hot, wanted - len(from_cold))))

    def check_integrity(self) -> None:
        """Raise AssertionError where the lists contradict one another."""
        free = self.get_all_free_blocks()
        if len(free) != len(set(free)):
            raise AssertionError("a block is in two lists")
        if len(free) > self._total_blocks:
            raise AssertionError(f"{len(free)} free blocks of {self._total_blocks}")
        if len(self._hot) > self._limits.hot_blocks:
            raise AssertionError(f"{len(self._hot)} idle hot blocks, quota {self._limits.hot_blocks}")
        if not self._hot_tags.issuperset(self._hot):
            raise AssertionError("a block is in the hot list without being hot")
        if self._hot_tags & (self._blank.keys() | self._cold.keys()) or self._blank.keys() & self._reuse.keys():
            raise AssertionError("an emptied or cold block is remembered as hot")

    def _keep_quota(self) -> None:
        while len(self._hot) > self._limits.hot_blocks:
            self._cool_oldest()

    def _cool_oldest(self) -> None:
        """Give the least recently used hot block a last life in the cold tier."""
        block, _ = self._hot.popitem(last=False)
        self._forget(block)
        self._cold[block] = self.now_s

    def _reclaim(self, most: int) -> list[int]:
        if 1 - len(self._blank) / self._total_blocks < self._limits.reclaim_ratio:
            return []
        oldest_s = self.now_s - self._limits.cold_retention_s
        count = 0
        for stamp_s in self._cold.values():
            if count == most or stamp_s > oldest_s:
                break
            count += 1
        return self._empty(self._cold, count)

    def _empty(self, queue: OrderedDict[int, float], count: int) -> list[int]:
        emptied = [queue.popitem(last=False)[0] for _ in range(count)]
        for block in emptied:
            self._forget(block)
            self._blank[block] = self.now_s
        return emptied

    def _forget(self, block: int) -> None:
        self._hot_tags.discard(block)
        self._reuse.pop(block, None)
