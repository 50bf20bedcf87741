"""Cache blocks of the simulated engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.backend.sim_blocks import BlockLease, BlockPool, block_hashes


def test_block_hashes_of_a_prompt_leave_one_token_to_compute() -> None:
    assert [len(block_hashes(range(n), cache_salt="", block_size_tokens=4)) for n in (1, 4, 5, 8, 9)] == [0, 0, 1, 1, 2]


def test_block_hashes_of_another_salt_share_nothing() -> None:
    one = block_hashes(range(9), cache_salt="a", block_size_tokens=4)
    other = block_hashes(range(9), cache_salt="b", block_size_tokens=4)
    assert not set(one) & set(other)


def test_block_hashes_of_a_common_prefix_are_common() -> None:
    one = block_hashes([1, 2, 3, 4, 5, 6, 7, 8, 9], cache_salt="", block_size_tokens=4)
    other = block_hashes([1, 2, 3, 4, 0, 6, 7, 8, 9], cache_salt="", block_size_tokens=4)
    assert (one[0] == other[0], one[1] == other[1]) == (True, False)


def test_acquire_of_a_published_prefix_hits_after_release() -> None:
    pool = BlockPool(10)
    first = pool.acquire([1, 2], 4)
    pool.publish(first, [1, 2])
    pool.release(first)
    second = pool.acquire([1, 2], 4)
    assert (second.pinned, second.private, pool.used) == ([1, 2], 2, 4)


def test_cost_of_a_prefix_in_use_is_only_the_rest() -> None:
    pool = BlockPool(10)
    pool.publish(pool.acquire([1, 2], 4), [1, 2])
    assert pool.cost([1, 2], 5) == 3


def test_acquire_short_of_blocks_overwrites_the_end_of_the_oldest_prompt() -> None:
    pool = BlockPool(4)
    first = pool.acquire([1, 2, 3], 4)
    pool.publish(first, [1, 2, 3])
    pool.release(first)
    pool.acquire([9], 2)
    assert pool.hits([1, 2, 3]) == 2


def test_acquire_over_the_free_blocks_is_refused() -> None:
    pool = BlockPool(4)
    pool.acquire([], 3)
    with pytest.raises(ValueError, match="2 blocks asked for, 1 free"):
        pool.acquire([], 2)


def test_publish_of_a_block_that_another_published_keeps_it_private() -> None:
    pool = BlockPool(10)
    one, other = pool.acquire([1], 2), pool.acquire([1], 2)
    pool.publish(one, [1])
    pool.publish(other, [1])
    assert (other.private, pool.used) == (2, 4)
    pool.release(one)
    pool.release(other)
    assert pool.used == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.booleans()), max_size=40))
def test_pool_after_any_history_never_overflows_and_is_free_in_the_end(history: list[tuple[int, int, bool]]) -> None:
    pool, leases = BlockPool(12), list[BlockLease]()
    for family, total, ends_one in history:
        hashes = [family * 100 + index for index in range(total - 1)]
        if pool.cost(hashes, total) <= pool.free:
            lease = pool.acquire(hashes, total)
            pool.publish(lease, hashes)
            leases.append(lease)
        if ends_one and leases:
            pool.release(leases.pop(0))
        assert 0 <= pool.used <= 12
    for lease in leases:
        pool.release(lease)
    assert pool.free == 12
