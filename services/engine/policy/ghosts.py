"""What a larger cache would have kept: the names of blocks that were given up lately, nothing of their content."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from services.engine.policy.tiering import Tier


class GhostLists:
    """Names of the last `capacity` blocks given up by each tier. A ghost hit is a lookup that found no block but its ghost:
    with that many more blocks the tier would have served it (after ARC: Megiddo and Modha, FAST 2003)."""

    def __init__(self, *, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} must be at least 1")
        self._capacity = capacity
        self._ghosts: dict[Tier, OrderedDict[Hashable, None]] = {tier: OrderedDict() for tier in Tier}

    def __len__(self) -> int:
        return sum(len(ghosts) for ghosts in self._ghosts.values())

    def add(self, name: Hashable, tier: Tier) -> None:
        """Remember a block that `tier` gave up; the oldest ghost beyond the capacity is forgotten."""
        ghosts = self._ghosts[tier]
        ghosts[name] = None
        ghosts.move_to_end(name)
        if len(ghosts) > self._capacity:
            ghosts.popitem(last=False)

    def take_hits(self, names: Iterable[Hashable]) -> dict[Tier, int]:
        """Count how many names, in the order of a prefix chain, are ghosts, up to the first that is none; forget those."""
        hits = dict.fromkeys(Tier, 0)
        for name in names:
            tier = self._tier_of(name)
            if tier is None:
                break
            del self._ghosts[tier][name]
            hits[tier] += 1
        return hits

    def _tier_of(self, name: Hashable) -> Tier | None:
        return next((tier for tier, ghosts in self._ghosts.items() if name in ghosts), None)
