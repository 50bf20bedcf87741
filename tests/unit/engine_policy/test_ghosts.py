import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.ghosts import GhostLists
from services.engine.policy.tiering import Tier


def test_hits_are_counted_by_tier_up_to_the_first_gap() -> None:
    ghosts = GhostLists(capacity=8)
    for name, tier in (("a", Tier.HOT), ("b", Tier.COLD), ("d", Tier.COLD)):
        ghosts.add(name, tier)

    assert ghosts.take_hits(["a", "b", "c", "d"]) == {Tier.HOT: 1, Tier.COLD: 1}


def test_ghost_that_was_hit_is_forgotten() -> None:
    ghosts = GhostLists(capacity=8)
    ghosts.add("a", Tier.COLD)
    ghosts.take_hits(["a"])

    assert ghosts.take_hits(["a"]) == {Tier.HOT: 0, Tier.COLD: 0}


def test_oldest_ghost_beyond_the_capacity_is_forgotten() -> None:
    ghosts = GhostLists(capacity=2)
    for name in ("a", "b", "a", "c"):
        ghosts.add(name, Tier.COLD)

    assert ghosts.take_hits(["b"])[Tier.COLD] == 0
    assert ghosts.take_hits(["a", "c"])[Tier.COLD] == 2


def test_capacity_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity"):
        GhostLists(capacity=0)


@given(st.lists(st.tuples(st.integers(), st.sampled_from(Tier))), st.integers(1, 5))
def test_ghosts_never_exceed_the_capacity_of_each_tier(added: list[tuple[int, Tier]], capacity: int) -> None:
    ghosts = GhostLists(capacity=capacity)
    for name, tier in added:
        ghosts.add(name, tier)

    assert len(ghosts) <= 2 * capacity
