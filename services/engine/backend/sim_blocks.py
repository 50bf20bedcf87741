"""Cache blocks of a simulated engine, with a prefix cache.

A block is *private* (its tokens are known to one request), *pinned* (a full prompt block that running requests use) or
*cached* (a full prompt block that nobody uses; it is free, and is overwritten when blocks run short, least recently used
first). private + pinned + free = capacity; cached blocks are among the free ones.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(kw_only=True)
class BlockLease:
    """Blocks that one request holds: hashes of pinned ones in prompt order, and the number of private ones."""

    pinned: list[int]
    private: int


class BlockPool:
    """Counts blocks; owned by the scheduler task."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._users: dict[int, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._private = 0

    @property
    def used(self) -> int:
        """Blocks that running requests hold."""
        return self._private + len(self._users)

    @property
    def free(self) -> int:
        """Blocks that a new request may take, cached ones included."""
        return self.capacity - self.used

    def hits(self, hashes: Sequence[int]) -> int:
        """Return how many leading blocks of a prompt are pinned or cached."""
        for index, block in enumerate(hashes):
            if block not in self._users and block not in self._cached:
                return index
        return len(hashes)

    def cost(self, hashes: Sequence[int], total: int) -> int:
        """Return the free blocks that a request of `total` blocks takes: all but those that others have pinned."""
        return total - sum(1 for block in hashes[: self.hits(hashes)] if block in self._users)

    def acquire(self, hashes: Sequence[int], total: int) -> BlockLease:
        """Take `total` blocks, cached ones where the prompt matches. Raises ValueError where they are not free."""
        if self.cost(hashes, total) > self.free:
            raise ValueError(f"{total} blocks asked for, {self.free} free")
        hit = list(hashes[: self.hits(hashes)])
        for block in hit:
            self._pin(block)
        self._private += total - len(hit)
        self._overwrite()
        return BlockLease(pinned=hit, private=total - len(hit))

    def publish(self, lease: BlockLease, hashes: Sequence[int]) -> None:
        """Make a computed prompt's full blocks known; those that another request published first stay private."""
        for block in hashes[len(lease.pinned) :]:
            if block in self._users or block in self._cached:
                return
            self._users[block] = 1
            self._private -= 1
            lease.private -= 1
            lease.pinned.append(block)

    def release(self, lease: BlockLease) -> None:
        """Give everything back; the end of a prompt is overwritten before its start."""
        self._private -= lease.private
        lease.private = 0
        while lease.pinned:
            block = lease.pinned.pop()
            self._users[block] -= 1
            if self._users[block] == 0:
                del self._users[block]
                self._cached[block] = None

    def _pin(self, block: int) -> None:
        self._cached.pop(block, None)
        self._users[block] = self._users.get(block, 0) + 1

    def _overwrite(self) -> None:
        while len(self._cached) > self.free:
            self._cached.popitem(last=False)


def block_hashes(token_ids: Sequence[int], *, cache_salt: str, block_size_tokens: int) -> list[int]:
    """Return the hash chain of a prompt's reusable blocks: full ones, and at least one token is left to compute."""
    parent = int.from_bytes(blake2b(cache_salt.encode(), digest_size=8).digest(), "little")
    hashes = []
    for index in range((len(token_ids) - 1) // block_size_tokens):
        block = tuple(token_ids[index * block_size_tokens : (index + 1) * block_size_tokens])
        parent = hash((parent, block))
        hashes.append(parent)
    return hashes
