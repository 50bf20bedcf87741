"""Knobs of the engine core."""

import pytest

from services.engine.vllm_ext.tuning import STATIC_SEQUENCES, CoreTuning, merge, to_payload

BASE = CoreTuning(max_active_sequences=64, max_batched_tokens=2048)


@pytest.mark.parametrize(
    ("update", "name", "value"),
    [
        ({"max_active_sequences": 1000}, "max_active_sequences", 64),
        ({"max_active_sequences": 0}, "max_active_sequences", 1),
        ({"max_batched_tokens": 10**6}, "max_batched_tokens", 2048),
        ({"hot_ratio": 1.5}, "hot_ratio", 1.0),
        ({"min_batch_share": -1.0}, "min_batch_share", 0.0),
        ({"realtime_step_s": 0.25}, "realtime_step_s", 0.25),
    ],
)
def test_update_is_clamped_to_the_envelope(update: dict[str, float], name: str, value: float) -> None:
    assert getattr(merge(BASE, update, max_sequences=64, max_tokens=2048), name) == value


def test_unknown_value_is_named() -> None:
    with pytest.raises(ValueError, match="'speed' is not a tuning value"):
        merge(BASE, {"speed": 1}, max_sequences=64, max_tokens=2048)


def test_static_batching_fixes_the_batch() -> None:
    static = merge(BASE, {"static_batching": True}, max_sequences=64, max_tokens=2048)

    assert (static.active_limit, BASE.active_limit) == (STATIC_SEQUENCES, 64)


def test_payload_goes_back_in() -> None:
    assert merge(BASE, to_payload(BASE), max_sequences=64, max_tokens=2048) == BASE
