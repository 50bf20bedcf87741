"""Stop texts over a stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.stop_text import scan


@pytest.mark.parametrize(
    ("held", "text", "stops", "expected"),
    [
        pytest.param("", "abc", ("x",), ("abc", "", False), id="none"),
        pytest.param("", "abxcd", ("x",), ("ab", "", True), id="inside"),
        pytest.param("", "abxy", ("xyz",), ("ab", "xy", False), id="possible start is held"),
        pytest.param("xy", "z!", ("xyz",), ("", "", True), id="completed over two texts"),
        pytest.param("xy", "a", ("xyz",), ("xya", "", False), id="held text turns out harmless"),
        pytest.param("", "one two", ("two", "one"), ("", "", True), id="the first place counts"),
    ],
)
def test_scan_of_text_releases_what_is_safe(
    held: str, text: str, stops: tuple[str, ...], expected: tuple[str, str, bool]
) -> None:
    found = scan(held, text, stops)
    assert (found.released, found.held, found.stopped) == expected


@given(
    pieces=st.lists(st.text("ab", max_size=4), max_size=12),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_scan_of_any_pieces_gives_the_text_before_the_first_stop(pieces: list[str], stops: list[str]) -> None:
    said, held = "", ""
    for piece in pieces:
        found = scan(held, piece, tuple(stops))
        said, held = said + found.released, found.held
        if found.stopped:
            break
    assert said + held == _before_the_first_complete_stop(pieces, stops)


def _before_the_first_complete_stop(pieces: list[str], stops: list[str]) -> str:
    """A stop counts from the piece that completes it; a longer one that began earlier may not be complete yet."""
    text = ""
    for piece in pieces:
        text += piece
        ends = [place for stop in stops if (place := text.find(stop)) >= 0]
        if ends:
            return text[: min(ends)]
    return text
