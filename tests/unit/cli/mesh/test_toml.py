"""TOML writing: what is written reads back as it was."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from cli.mesh.toml import Value, to_toml

_SCALARS = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])) | st.integers(-(2**62), 2**62) | st.booleans()
_KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(st.dictionaries(_KEYS, _SCALARS), st.dictionaries(_KEYS, _SCALARS))
def test_to_toml_reads_back_as_written(plain: dict[str, str | int | bool], inner: dict[str, str | int | bool]) -> None:
    table: dict[str, Value] = {**plain, "Inner": inner, "List": [inner, {"Deep": inner}]}
    assert tomllib.loads(to_toml(table)) == table


def test_to_toml_tuple_becomes_an_array() -> None:
    assert tomllib.loads(to_toml({"devices": ("0", "1"), "speed": 0.5})) == {"devices": ["0", "1"], "speed": 0.5}


def test_to_toml_table_before_plain_key_keeps_the_key_at_the_root() -> None:
    assert tomllib.loads(to_toml({"inner": {"a": 1}, "plain": 2})) == {"inner": {"a": 1}, "plain": 2}
