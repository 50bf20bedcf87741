from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from services.engine.policy.tiering import Purged, Tier, TieredFreeList, TierLimits, hot_quota

_BOTH = frozenset(Tier)
_LIMITS = TierLimits(hot_blocks=4)


class _Evicted(list[tuple[int, Tier]]):
    """Blocks handed out with content in them, in order."""

    def __call__(self, block: int, tier: Tier) -> None:
        self.append((block, tier))


def _tiers(blocks: int = 8, *, limits: TierLimits = _LIMITS, evicted: _Evicted | None = None) -> TieredFreeList:
    return TieredFreeList(
        range(blocks), total_blocks=blocks, limits=limits, on_evict=_Evicted() if evicted is None else evicted
    )


def _cached(tiers: TieredFreeList, count: int, *, hot: bool = False) -> list[int]:
    """Use some blocks and put them back with content."""
    blocks = tiers.popleft_n(count)
    if hot:
        tiers.mark_hot(blocks)
    tiers.append_n(blocks)
    return blocks


def test_blank_blocks_go_out_in_order_and_the_last_blanked_first() -> None:
    tiers = _tiers()
    first = tiers.popleft_n(3)
    tiers.prepend_n([2, 0])

    assert first == [0, 1, 2]
    assert tiers.popleft_n(4) == [2, 0, 3, 4]


def test_cold_goes_before_hot_and_the_least_recently_used_first() -> None:
    evicted = _Evicted()
    tiers = _tiers(6, evicted=evicted)
    hot = _cached(tiers, 2, hot=True)
    cold = _cached(tiers, 4)

    assert tiers.popleft_n(6) == cold + hot
    assert evicted == [(2, Tier.COLD), (3, Tier.COLD), (4, Tier.COLD), (5, Tier.COLD), (0, Tier.HOT), (1, Tier.HOT)]


def test_popleft_where_nothing_is_free_is_refused() -> None:
    tiers = _tiers(2)
    tiers.popleft_n(2)

    with pytest.raises(ValueError, match="1 blocks asked for, 0 are free"):
        tiers.popleft()


def test_shielded_hot_blocks_are_neither_free_nor_handed_out() -> None:
    tiers = _tiers(6)
    _cached(tiers, 2, hot=True)
    tiers.shield_hot = True

    assert tiers.num_free_blocks == 4
    with pytest.raises(ValueError, match="5 blocks asked for, 4 are free"):
        tiers.popleft_n(5)


def test_hot_beyond_the_quota_goes_cold_oldest_first() -> None:
    tiers = _tiers(8, limits=replace(_LIMITS, hot_blocks=3))
    _cached(tiers, 5, hot=True)

    assert (tiers.hot_blocks, tiers.cold_blocks) == (3, 2)
    assert tiers.get_all_free_blocks() == [5, 6, 7, 0, 1, 2, 3, 4]


def test_smaller_quota_takes_effect_at_once() -> None:
    tiers = _tiers(8)
    _cached(tiers, 4, hot=True)

    tiers.set_limits(replace(_LIMITS, hot_blocks=1))

    assert (tiers.hot_blocks, tiers.cold_blocks) == (1, 3)


def test_hot_block_used_again_stays_hot_when_it_comes_back() -> None:
    tiers = _tiers()
    _cached(tiers, 1, hot=True)
    tiers.remove(0)

    tiers.append(0)

    assert (tiers.hot_blocks, tiers.is_hot(0)) == (1, True)


def test_block_handed_out_is_no_longer_hot() -> None:
    tiers = _tiers(2)
    _cached(tiers, 2, hot=True)

    block = tiers.popleft()
    tiers.append(block)

    assert not tiers.is_hot(block)


def test_block_hit_twice_within_the_window_is_promoted() -> None:
    tiers = _tiers()
    _cached(tiers, 2)
    for block in (0, 1):
        tiers.remove(block)
    tiers.note_hits([0, 1])
    once = tiers.is_hot(0)
    tiers.now_s = 59.0
    tiers.note_hits([0])
    tiers.append_n([1, 0])

    assert not once
    assert [tiers.is_hot(block) for block in (0, 1)] == [True, False]
    assert (tiers.hot_blocks, tiers.cold_blocks) == (1, 1)


def test_block_hit_again_after_the_window_is_not_promoted() -> None:
    tiers = _tiers()
    tiers.note_hits([0])
    tiers.now_s = 61.0
    tiers.note_hits([0])

    assert not tiers.is_hot(0)


def test_mark_hot_of_an_idle_cold_block_moves_it() -> None:
    tiers = _tiers()
    _cached(tiers, 2)

    tiers.mark_hot([1])

    assert (tiers.hot_blocks, tiers.cold_blocks) == (1, 1)


def test_mark_hot_of_a_blank_block_changes_nothing() -> None:
    tiers = _tiers()

    tiers.mark_hot([3])

    assert not tiers.is_hot(3)


def test_unused_hot_block_decays_after_its_retention() -> None:
    tiers = _tiers(limits=replace(_LIMITS, hot_retention_s=900.0))
    _cached(tiers, 2, hot=True)
    tiers.now_s = 899.0
    tiers.decay(most=64)
    before = tiers.hot_blocks
    tiers.now_s = 900.0
    tiers.decay(most=64)

    assert (before, tiers.hot_blocks, tiers.cold_blocks) == (2, 0, 2)
    assert not tiers.is_hot(0)


def test_cold_blocks_are_reclaimed_under_pressure_only() -> None:
    tiers = _tiers(10, limits=replace(_LIMITS, cold_retention_s=120.0, reclaim_ratio=0.8))
    _cached(tiers, 7)
    tiers.now_s = 1000.0
    relaxed = tiers.decay(most=64)
    tiers.popleft_n(1)

    assert relaxed == []
    assert tiers.decay(most=3) == [0, 1, 2]


def test_cold_block_within_its_retention_is_not_reclaimed() -> None:
    tiers = _tiers(4, limits=replace(_LIMITS, cold_retention_s=120.0, reclaim_ratio=0.5))
    _cached(tiers, 2)
    tiers.now_s = 60.0
    _cached(tiers, 2)
    tiers.now_s = 121.0

    assert tiers.decay(most=64) == [0, 1]


@pytest.mark.parametrize(
    ("share", "which", "expected"),
    [
        pytest.param(0.5, _BOTH, Purged(cold=(2, 3, 4), hot=()), id="half: coldest first"),
        pytest.param(1.0, _BOTH, Purged(cold=(2, 3, 4, 5), hot=(0, 1)), id="all"),
        pytest.param(0.9, _BOTH, Purged(cold=(2, 3, 4, 5), hot=(0, 1)), id="rounded up"),
        pytest.param(0.5, frozenset({Tier.HOT}), Purged(cold=(), hot=(0,)), id="half of the hot"),
        pytest.param(1.0, frozenset({Tier.COLD}), Purged(cold=(2, 3, 4, 5), hot=()), id="all of the cold"),
        pytest.param(0.0, _BOTH, Purged(cold=(), hot=()), id="nothing"),
    ],
)
def test_purge_empties_a_share_of_the_idle_blocks(share: float, which: frozenset[Tier], expected: Purged) -> None:
    tiers = _tiers(8)
    _cached(tiers, 2, hot=True)
    _cached(tiers, 4)
    in_use = tiers.popleft_n(2)

    purged = tiers.purge(share=share, tiers=which)

    assert purged == expected
    assert not set(in_use) & {*purged.cold, *purged.hot}
    assert tiers.blank_blocks == len(purged.cold) + len(purged.hot)


def test_tail_of_a_chain_goes_before_its_head_whatever_happens() -> None:
    tiers = _tiers(8, limits=replace(_LIMITS, hot_blocks=2, hot_retention_s=10.0))
    chain = tiers.popleft_n(4)
    tiers.mark_hot(reversed(chain))
    tiers.append_n(list(reversed(chain)))
    tiers.now_s = 20.0
    tiers.decay(most=1)
    tiers.decay(most=64)

    assert [block for block in tiers.get_all_free_blocks() if block in chain] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("total", "ratio", "least", "expected"),
    [
        pytest.param(1000, 0.3, 0, 300, id="the share"),
        pytest.param(1000, 0.1, 200, 200, id="the minimum"),
        pytest.param(100, 0.9, 500, 99, id="never all"),
        pytest.param(1, 0.3, 0, 0, id="one block"),
    ],
)
def test_hot_quota(total: int, ratio: float, least: int, expected: int) -> None:
    assert hot_quota(total_blocks=total, hot_ratio=ratio, min_hot_blocks=least) == expected


@pytest.mark.parametrize("fault", ["twice", "untagged", "over quota"])
def test_check_integrity_finds_the_fault(fault: str) -> None:
    tiers = _tiers(8)
    _cached(tiers, 3, hot=True)
    match fault:
        case "twice":
            tiers._cold[0] = 0.0
        case "untagged":
            tiers._hot_tags.clear()
        case _:
            tiers._limits = replace(_LIMITS, hot_blocks=2)

    with pytest.raises(AssertionError):
        tiers.check_integrity()


class _PoolMachine(RuleBasedStateMachine):
    """A block pool that allocates, shares, frees, purges and tunes at random; no block is ever lost or handed out twice."""

    def __init__(self) -> None:
        super().__init__()
        self.tiers = _tiers(24, limits=TierLimits(hot_blocks=6, hot_retention_s=50.0, cold_retention_s=20.0))
        self.in_use: list[int] = []

    @rule(count=st.integers(0, 6))
    def allocate(self, count: int) -> None:
        if count <= self.tiers.num_free_blocks:
            blocks = self.tiers.popleft_n(count)
            assert not set(blocks) & set(self.in_use)
            self.in_use += blocks

    @rule(count=st.integers(0, 6), hot=st.booleans())
    def free_with_content(self, count: int, hot: bool) -> None:
        blocks, self.in_use = self.in_use[:count], self.in_use[count:]
        if hot:
            self.tiers.mark_hot(blocks)
        self.tiers.append_n(blocks)

    @rule(count=st.integers(0, 6))
    def free_blank(self, count: int) -> None:
        blocks, self.in_use = self.in_use[:count], self.in_use[count:]
        self.tiers.prepend_n(blocks)

    @rule(which=st.integers(0, 23))
    def hit(self, which: int) -> None:
        free = self.tiers.get_all_free_blocks()[self.tiers.blank_blocks :]
        if free:
            block = free[which % len(free)]
            self.tiers.remove(block)
            self.tiers.note_hits([block])
            self.in_use.append(block)

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.tiers.now_s += seconds
        self.tiers.decay(most=4)

    @rule(share=st.floats(0, 1), which=st.sets(st.sampled_from(Tier)))
    def purge(self, share: float, which: set[Tier]) -> None:
        purged = self.tiers.purge(share=share, tiers=frozenset(which))
        assert not {*purged.cold, *purged.hot} & set(self.in_use)

    @rule(hot_blocks=st.integers(0, 12))
    def tune(self, hot_blocks: int) -> None:
        self.tiers.set_limits(TierLimits(hot_blocks=hot_blocks, hot_retention_s=50.0, cold_retention_s=20.0))

    @rule(shield=st.booleans())
    def shield(self, shield: bool) -> None:
        self.tiers.shield_hot = shield

    @invariant()
    def every_block_is_in_one_place(self) -> None:
        self.tiers.check_integrity()
        assert sorted([*self.tiers.get_all_free_blocks(), *self.in_use]) == list(range(24))


TestPoolMachine = _PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
