from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.preemption import Need, VictimView, choose_victims, lost_tokens, victim_ranks


def _victim(name: str, computed: int, *, key: float = 0.0, own: int | None = None) -> VictimView:
    return VictimView(
        request_id=name, computed_tokens=computed, own_blocks=computed // 16 + 1 if own is None else own, order_key=key
    )


def _need(*, slots: int = 0, blocks: int = 0, free: int = 0) -> Need:
    return Need(slots=slots, blocks=blocks, free_blocks=free, block_size_tokens=16)


def test_lost_tokens_of_a_request_whose_blocks_stay_are_those_of_the_unfilled_one() -> None:
    assert lost_tokens(_victim("a", 100), taken_blocks=0, block_size_tokens=16) == 4


def test_lost_tokens_count_the_blocks_that_others_take() -> None:
    assert lost_tokens(_victim("a", 100), taken_blocks=2, block_size_tokens=16) == 36
    assert lost_tokens(_victim("a", 100), taken_blocks=50, block_size_tokens=16) == 100


def test_no_victim_where_nothing_is_short() -> None:
    assert choose_victims([_victim("a", 100)], _need(blocks=5, free=5), allowed=8) == ()


def test_victim_for_a_slot_is_the_one_that_loses_least() -> None:
    views = [_victim("lost 12", 1000 + 4), _victim("lost 2", 2002), _victim("lost 15", 31)]

    assert choose_victims(views, _need(slots=1), allowed=8) == ("lost 2",)


def test_victim_among_equals_is_the_last_in_order() -> None:
    views = [_victim("old", 32, key=1.0), _victim("new", 32, key=2.0)]

    assert choose_victims(views, _need(slots=1), allowed=8) == ("new",)


def test_victims_for_blocks_are_as_many_as_free_enough() -> None:
    views = [_victim("a", 160, own=10), _victim("b", 170, own=11), _victim("c", 1600, own=100)]

    assert choose_victims(views, _need(blocks=15, free=2), allowed=8) == ("a", "b")


def test_no_victim_where_all_together_free_too_little() -> None:
    assert choose_victims([_victim("a", 160, own=10)], _need(blocks=50), allowed=8) == ()


def test_no_more_victims_than_allowed() -> None:
    views = [_victim(str(number), 32) for number in range(5)]

    assert len(choose_victims(views, _need(slots=4), allowed=2)) == 2
    assert choose_victims(views, _need(slots=4), allowed=0) == ()


def test_rank_of_the_one_with_most_to_lose_is_lowest() -> None:
    ranks = victim_ranks([_victim("far", 500), _victim("begun", 20), _victim("half", 250)], block_size_tokens=16)

    assert ranks == {"far": 1, "half": 2, "begun": 3}


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 100)), max_size=20),
    st.integers(0, 8),
    st.integers(0, 400),
    st.integers(0, 10),
)
def test_victims_are_distinct_bounded_and_suffice_for_the_blocks(
    requests: list[tuple[int, float]], slots: int, blocks: int, allowed: int
) -> None:
    views = [_victim(str(number), computed, key=key) for number, (computed, key) in enumerate(requests)]

    chosen = choose_victims(views, _need(slots=slots, blocks=blocks), allowed=allowed)

    assert len(set(chosen)) == len(chosen) <= allowed
    freed = sum(view.own_blocks for view in views if view.request_id in chosen)
    assert not chosen or freed >= blocks
