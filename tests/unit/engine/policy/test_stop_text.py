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
    whole, said, held = "".join(pieces), "", ""
    for piece in pieces:
        found = scan(held, piece, tuple(stops))
        said, held = said + found.released, found.held
        if found.stopped:
            break
    ends = [place for stop in stops if (place := whole.find(stop)) >= 0]
    assert said + held == (whole[: min(ends)] if ends else whole)
