"""The tiered free queue on vLLM's own blocks, against what vLLM's own queue does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.policy.tiering import Tier, TierRules

pytestmark = pytest.mark.filterwarnings("ignore")

TOTAL = 20


def new_queue(*, hot_ratio: float = 0.3):  # type: ignore[no-untyped-def]  # noqa: ANN201  # types of vLLM
    from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock

    from services.engine.vllm_ext.tiered_queue import TieredFreeQueue

    blocks = [KVCacheBlock(number) for number in range(TOTAL)]
    free = FreeKVCacheBlockQueue(blocks)
    return TieredFreeQueue(free, total_blocks=TOTAL, rules=TierRules(hot_ratio=hot_ratio), now_s=lambda: 0.0)


def give_hash(block, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    block._block_hash = name.encode()
    return block


def test_cold_blocks_go_first_and_hot_ones_last() -> None:
    queue = new_queue()
    taken = [give_hash(block, f"h{block.block_id}") for block in queue.popleft_n(TOTAL)]
    queue.hotness.mark(taken[3].block_hash, 0.0)
    queue.append_n(taken)

    order = [block.block_id for block in queue.popleft_n(TOTAL)]

    assert order == [number for number in range(TOTAL) if number != 3] + [3]
    assert queue.evicted_total == {Tier.HOT: 1, Tier.COLD: TOTAL - 1}


def test_hot_blocks_over_the_quota_become_cold_the_longest_unused_first() -> None:
    queue = new_queue(hot_ratio=0.1)
    taken = [give_hash(block, f"h{block.block_id}") for block in queue.popleft_n(TOTAL)]
    for block in taken[:3]:
        queue.hotness.mark(block.block_hash, 0.0)
    queue.append_n(taken)

    assert (queue.hot_blocks, queue.cold_blocks) == (2, 18)
    assert queue.popleft_n(TOTAL)[17].block_id == 0


def test_hot_blocks_are_out_of_batchs_reach() -> None:
    queue = new_queue()
    taken = [give_hash(block, f"h{block.block_id}") for block in queue.popleft_n(TOTAL)]
    queue.hotness.mark(taken[0].block_hash, 0.0)
    queue.append_n(taken)
    queue.protect_hot = True
    assert queue.num_free_blocks == TOTAL - 1
    queue.protect_hot = False
    assert queue.num_free_blocks == TOTAL


def test_evicted_content_that_is_computed_again_is_a_ghost_hit() -> None:
    queue = new_queue()
    (block,) = queue.popleft_n(1)
    queue.append_n([give_hash(block, "h")])
    evicted = queue.popleft_n(TOTAL)[-1]
    assert evicted.block_hash == b"h"
    queue.append_n([evicted])

    assert queue.ghosts[Tier.COLD].hits_total == 1


def test_one_shot_blocks_are_reused_first() -> None:
    queue = new_queue()
    taken = [give_hash(block, f"h{block.block_id}") for block in queue.popleft_n(3)]
    queue.discard = True
    queue.append_n(taken)

    assert [block.block_id for block in queue.popleft_n(3)] == [0, 1, 2]


def test_purge_names_cached_blocks_the_coldest_first() -> None:
    queue = new_queue()
    taken = [give_hash(block, f"h{block.block_id}") for block in queue.popleft_n(4)]
    queue.hotness.mark(taken[0].block_hash, 0.0)
    queue.append_n(taken)

    assert queue.purgeable(0.5, frozenset(Tier)) == [1, 2]
    assert queue.purgeable(1.0, frozenset({Tier.HOT})) == [0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["take", "give", "reuse", "hot"]), st.integers(1, 6)), max_size=60))
def test_no_block_is_ever_lost_or_there_twice(steps: list[tuple[str, int]]) -> None:
    queue, held = new_queue(), []
    for what, count in steps:
        if what == "take":
            held += queue.popleft_n(min(count, queue.num_free_blocks))
        elif what == "give":
            back, held = held[:count], held[count:]
            queue.append_n([give_hash(block, f"h{block.block_id}") for block in back])
        elif what == "hot":
            queue.hotness.mark(f"h{count}".encode(), 0.0)
        else:
            for block in queue.get_all_free_blocks()[-1:]:
                queue.remove(block)
                held.append(block)
        queue.check_integrity()
        free = [block.block_id for block in queue.get_all_free_blocks()]
        assert sorted(free + [block.block_id for block in held]) == list(range(TOTAL))
