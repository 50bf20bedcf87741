"""Made-up answers."""

from hypothesis import given
from hypothesis import strategies as st

from services.engine.backend import sim_text


def test_digest_of_seed_and_prompt_depends_on_both() -> None:
    assert len({sim_text.digest(0, [1, 2]), sim_text.digest(1, [1, 2]), sim_text.digest(0, [2, 1])}) == 3


def test_digest_of_a_prompt_is_always_the_same() -> None:
    assert sim_text.digest(7, [1, 2, 3]) == 12631383359790020463


@given(st.integers(0, 2**64 - 1), st.integers(0, 10_000), st.integers(2, 100_000))
def test_token_at_any_place_is_in_the_vocabulary(start: int, index: int, size: int) -> None:
    assert 0 <= sim_text.token_at(start, index, size) < size


@given(st.integers(0, 2**64 - 1))
def test_natural_length_of_any_answer_is_16_to_127(start: int) -> None:
    assert 16 <= sim_text.natural_length(start) <= 127


def test_text_of_a_token_is_a_space_and_a_word() -> None:
    assert sim_text.text_of(0) == " account"
