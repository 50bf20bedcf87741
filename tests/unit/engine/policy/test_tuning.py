"""Tuning inside the startup envelope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.domain import TuningValues
from services.engine.policy.tuning import TuningBounds, TuningUpdate, clamp, merge

BOUNDS = TuningBounds(max_active_sequences=64, max_batched_tokens=2048)


def values(sequences: int, tokens: int) -> TuningValues:
    return TuningValues(max_active_sequences=sequences, max_batched_tokens=tokens)


@pytest.mark.parametrize(
    ("asked", "holds", "fields"),
    [
        pytest.param(values(32, 512), values(32, 512), (), id="inside"),
        pytest.param(values(65, 512), values(64, 512), ("max_active_sequences",), id="too many sequences"),
        pytest.param(values(0, 15), values(1, 16), ("max_active_sequences", "max_batched_tokens"), id="too few of both"),
        pytest.param(values(64, 4096), values(64, 2048), ("max_batched_tokens",), id="too many tokens"),
    ],
)
def test_clamp_of_values_moves_them_inside(asked: TuningValues, holds: TuningValues, fields: tuple[str, ...]) -> None:
    clamped = clamp(asked, BOUNDS)
    assert (clamped.values, clamped.clamped_fields) == (holds, fields)


def test_merge_of_a_partial_update_leaves_the_rest() -> None:
    assert merge(values(8, 128), TuningUpdate(max_batched_tokens=256)) == values(8, 256)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_clamp_of_any_values_stays_in_bounds(sequences: int, tokens: int) -> None:
    holds = clamp(values(sequences, tokens), BOUNDS).values
    assert 1 <= holds.max_active_sequences <= 64
    assert 16 <= holds.max_batched_tokens <= 2048
