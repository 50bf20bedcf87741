"""Which cached blocks are hot, and which go first when space is needed (E4)."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

Key = Hashable

# Ghosts beyond this say nothing that the controller could act on.
_GHOSTS_PER_BLOCK = 1.0
# E4: a prefix used again within this time has proven itself.
DEFAULT_REUSE_WINDOW_S = 120.0
# E4: hot blocks are kept at least this long after their last use; then they cool down.
DEFAULT_HOT_RETENTION_S = 900.0
DEFAULT_HOT_RATIO = 0.3


class Tier(Enum):
    """Where a block waits for its next use."""

    HOT = "hot"
    COLD = "cold"


@dataclass(frozen=True, kw_only=True)
class TierRules:
    """`hot_ratio` of all blocks, and never fewer than `hot_min_blocks`, may be hot; times in seconds."""

    hot_ratio: float = DEFAULT_HOT_RATIO
    hot_min_blocks: int = 0
    hot_retention_s: float = DEFAULT_HOT_RETENTION_S
    reuse_window_s: float = DEFAULT_REUSE_WINDOW_S

    def hot_quota(self, total_blocks: int) -> int:
        """Return the most hot blocks."""
        return min(total_blocks, max(self.hot_min_blocks, int(total_blocks * self.hot_ratio)))


class GhostList:
    """Keys of blocks evicted lately, oldest forgotten first. Asking for one that is there is a ghost hit: a larger tier would
    have had it."""

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._keys: OrderedDict[Key, None] = OrderedDict()
        self.hits_total = 0

    def __len__(self) -> int:
        return len(self._keys)

    def evicted(self, key: Key) -> None:
        """Remember an eviction."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        if len(self._keys) > self._capacity:
            self._keys.popitem(last=False)

    def asked_for(self, key: Key) -> bool:
        """Count and forget a key that is wanted again; returns whether it was there."""
        if key not in self._keys:
            return False
        del self._keys[key]
        self.hits_total += 1
        return True


class Hotness:
    """Which keys are hot: marked by a request, or learned by reuse within the window. Bounded by `capacity` keys."""

    def __init__(self, capacity: int, rules: TierRules) -> None:
        self._capacity = max(1, capacity)
        self.rules = rules
        self._hot_until_s: OrderedDict[Key, float] = OrderedDict()
        self._last_use_s: OrderedDict[Key, float] = OrderedDict()

    def mark(self, key: Key, now_s: float) -> None:
        """A request asked for the hot tier, or reuse earned it."""
        self._hot_until_s[key] = now_s + self.rules.hot_retention_s
        self._hot_until_s.move_to_end(key)
        if len(self._hot_until_s) > self._capacity:
            self._hot_until_s.popitem(last=False)

    def used(self, key: Key, now_s: float) -> None:
        """A cached block was used again. A hot one stays hot; a cold one becomes hot at its second use within the window."""
        last_s = self._last_use_s.pop(key, None)
        if key in self._hot_until_s or (last_s is not None and now_s - last_s <= self.rules.reuse_window_s):
            self.mark(key, now_s)
        self._last_use_s[key] = now_s
        if len(self._last_use_s) > self._capacity:
            self._last_use_s.popitem(last=False)

    def tier(self, key: Key, now_s: float) -> Tier:
        """Return where a free block with this key belongs; unused hot keys have cooled down."""
        until_s = self._hot_until_s.get(key)
        if until_s is None:
            return Tier.COLD
        if until_s < now_s:
            del self._hot_until_s[key]
            return Tier.COLD
        return Tier.HOT

    def forget(self, key: Key) -> None:
        """The block is gone."""
        self._hot_until_s.pop(key, None)


def ghost_capacity(total_blocks: int) -> int:
    """Return how many ghosts each tier keeps."""
    return int(total_blocks * _GHOSTS_PER_BLOCK)


def purge_counts(*, share: float, cold: int, hot: int) -> tuple[int, int]:
    """Return how many cold and hot free blocks a purge of `share` (0 to 1) of both takes: the cold first."""
    wanted = round(share * (cold + hot))
    from_cold = min(wanted, cold)
    return from_cold, min(wanted - from_cold, hot)
