from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.scheduler_tuning import (
    Envelope,
    SchedulerTuning,
    active_limit,
    apply_update,
    clamp,
    step_targets,
    tier_limits,
)

_ENVELOPE = Envelope(max_active_sequences=64, max_batched_tokens=2048, total_blocks=1000)
_TUNING = SchedulerTuning(max_active_sequences=32, max_batched_tokens=1024)


def test_update_sets_the_named_fields_only() -> None:
    applied = apply_update(_TUNING, {"hot_cache_ratio": 0.4, "static_batching": True}, _ENVELOPE)

    assert applied.values == replace(_TUNING, hot_cache_ratio=0.4, static_batching=True)
    assert applied.clamped_fields == ()


def test_update_beyond_the_envelope_is_clamped_and_named() -> None:
    applied = apply_update(_TUNING, {"max_active_sequences": 999, "max_batched_tokens": 1}, _ENVELOPE)

    assert (applied.values.max_active_sequences, applied.values.max_batched_tokens) == (64, 16)
    assert applied.clamped_fields == ("max_active_sequences", "max_batched_tokens")


def test_idle_step_is_never_shorter_than_the_realtime_step() -> None:
    assert apply_update(_TUNING, {"realtime_step_s": 2.0}, _ENVELOPE).values.idle_step_s == 2.0


def test_whole_number_serves_as_a_fraction() -> None:
    assert apply_update(_TUNING, {"idle_step_s": 1}, _ENVELOPE).values.idle_step_s == 1.0


def test_unknown_field_is_refused() -> None:
    with pytest.raises(KeyError, match="unknown tuning: hot_ratio"):
        apply_update(_TUNING, {"hot_ratio": 0.3}, _ENVELOPE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("max_active_sequences", 1.5, id="fraction"),
        pytest.param("max_active_sequences", True, id="truth value"),
        pytest.param("static_batching", 1, id="number"),
        pytest.param("hot_cache_ratio", "0.3", id="text"),
        pytest.param("hot_cache_ratio", float("nan"), id="not a number"),
        pytest.param("idle_step_s", float("inf"), id="infinite"),
    ],
)
def test_value_of_another_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        apply_update(_TUNING, {name: value}, _ENVELOPE)


def test_static_batching_fixes_eight_and_switches_adaptation_off() -> None:
    static = replace(_TUNING, static_batching=True)

    assert (active_limit(_TUNING), active_limit(static)) == (32, 8)
    assert (step_targets(_TUNING).adaptive, step_targets(static).adaptive) == (True, False)


def test_tier_limits_follow_the_ratio_of_all_blocks() -> None:
    assert tier_limits(replace(_TUNING, hot_cache_ratio=0.4), _ENVELOPE).hot_blocks == 400


def _updates() -> st.SearchStrategy[dict[str, Any]]:
    numbers = {"int": st.integers(-(10**9), 10**9), "float": st.floats(-1e9, 1e9), "bool": st.booleans()}
    return st.fixed_dictionaries(
        {}, optional={field.name: numbers[type(getattr(_TUNING, field.name)).__name__] for field in fields(SchedulerTuning)}
    )


@given(_updates())
def test_any_update_ends_inside_the_envelope_and_clamping_again_changes_nothing(update: dict[str, Any]) -> None:
    values = apply_update(_TUNING, update, _ENVELOPE).values

    assert clamp(values, _ENVELOPE) == values
    assert 1 <= values.max_active_sequences <= 64
    assert 16 <= values.max_batched_tokens <= 2048
    assert values.realtime_step_s <= values.idle_step_s
    assert 0 <= values.hot_cache_ratio <= 0.9
    assert asdict(values).keys() == asdict(_TUNING).keys()
