"""Hot and cold: what is remembered, for how long, and how much of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.tiering import GhostList, Hotness, Tier, TierRules, purge_counts

RULES = TierRules(hot_retention_s=900.0, reuse_window_s=120.0)


@pytest.mark.parametrize(
    ("rules", "total", "quota"),
    [
        (TierRules(hot_ratio=0.3), 1000, 300),
        (TierRules(hot_ratio=0.0), 1000, 0),
        (TierRules(hot_ratio=0.1, hot_min_blocks=200), 1000, 200),
        (TierRules(hot_ratio=0.1, hot_min_blocks=2000), 1000, 1000),
    ],
)
def test_quota_is_a_share_with_a_floor_and_never_more_than_all(rules: TierRules, total: int, quota: int) -> None:
    assert rules.hot_quota(total) == quota


def test_marked_key_is_hot_until_its_retention_ends() -> None:
    hotness = Hotness(10, RULES)
    hotness.mark("a", 0.0)

    assert hotness.tier("a", 900.0) is Tier.HOT
    assert hotness.tier("a", 900.1) is Tier.COLD
    assert hotness.tier("b", 0.0) is Tier.COLD


def test_second_use_within_the_window_makes_hot() -> None:
    hotness = Hotness(10, RULES)
    hotness.used("a", 0.0)
    assert hotness.tier("a", 0.0) is Tier.COLD
    hotness.used("a", 120.0)
    assert hotness.tier("a", 120.0) is Tier.HOT
    hotness.used("b", 0.0)
    hotness.used("b", 121.0)
    assert hotness.tier("b", 121.0) is Tier.COLD


def test_use_of_a_hot_key_prolongs_it() -> None:
    hotness = Hotness(10, RULES)
    hotness.mark("a", 0.0)
    hotness.used("a", 800.0)

    assert hotness.tier("a", 1699.0) is Tier.HOT


def test_forgotten_key_is_cold() -> None:
    hotness = Hotness(10, RULES)
    hotness.mark("a", 0.0)
    hotness.forget("a")

    assert hotness.tier("a", 0.0) is Tier.COLD


def test_hotness_keeps_the_newest_keys_only() -> None:
    hotness = Hotness(2, RULES)
    for key in ("a", "b", "c"):
        hotness.mark(key, 0.0)

    assert [hotness.tier(key, 0.0) for key in ("a", "b", "c")] == [Tier.COLD, Tier.HOT, Tier.HOT]


@given(st.lists(st.tuples(st.sampled_from("ea"), st.integers(0, 9)), max_size=200), st.integers(1, 5))
def test_ghosts_are_bounded_and_hit_once_for_each_eviction(steps: list[tuple[str, int]], capacity: int) -> None:
    ghosts, evictions = GhostList(capacity), 0
    for what, key in steps:
        if what == "e":
            ghosts.evicted(key)
            evictions += 1
        else:
            ghosts.asked_for(key)
        assert len(ghosts) <= capacity

    assert ghosts.hits_total <= evictions


@pytest.mark.parametrize(
    ("share", "cold", "hot", "counts"),
    [(0.5, 100, 20, (60, 0)), (0.9, 100, 20, (100, 8)), (1.0, 100, 20, (100, 20)), (0.0, 100, 20, (0, 0)), (0.5, 0, 0, (0, 0))],
)
def test_purge_takes_the_cold_first(share: float, cold: int, hot: int, counts: tuple[int, int]) -> None:
    assert purge_counts(share=share, cold=cold, hot=hot) == counts
