"""The fitted step-time model."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.step_time import DEFAULT_BOUNDS, DEFAULT_PRIOR, StepTimeModel, StepWork

TRUE_BASE_S, TRUE_PREFILL_S, TRUE_DECODE_S, TRUE_CONTEXT_S = 0.04, 0.0025, 0.002, 0.001


def true_time_s(work: StepWork) -> float:
    return (
        TRUE_BASE_S
        + TRUE_PREFILL_S * work.prefill_tokens
        + TRUE_DECODE_S * work.decodes
        + TRUE_CONTEXT_S * work.context_ktokens
    )


def some_work(random: Random) -> StepWork:
    return StepWork(random.choice((0, 16, 64, 128, 256)), random.randrange(16), random.random() * 20)


def taught(steps: int, *, noise: float = 0.0) -> StepTimeModel:
    model, random = StepTimeModel(), Random(1)
    for _ in range(steps):
        work = some_work(random)
        model.learn(work, true_time_s(work) * (1 + noise * (random.random() - 0.5)))
    return model


def test_first_prediction_is_the_prior() -> None:
    assert StepTimeModel().predict_s(StepWork(100, 10, 1.0)) == pytest.approx(
        DEFAULT_PRIOR.base_s
        + 100 * DEFAULT_PRIOR.prefill_token_s
        + 10 * DEFAULT_PRIOR.decode_s
        + DEFAULT_PRIOR.context_ktoken_s
    )


def test_twenty_steps_are_enough_to_predict_within_a_tenth() -> None:
    model = taught(20)

    assert model.predict_s(StepWork(128, 4, 5.0)) == pytest.approx(true_time_s(StepWork(128, 4, 5.0)), rel=0.1)


def test_noise_of_a_fifth_is_averaged_out() -> None:
    model = taught(400, noise=0.2)

    assert model.coefficients.prefill_token_s == pytest.approx(TRUE_PREFILL_S, rel=0.1)
    assert model.error_ratio is not None
    assert model.error_ratio < 0.15


def test_single_outlier_hardly_moves_the_fit() -> None:
    model = taught(200, noise=0.05)
    before = model.predict_s(StepWork(128, 4, 5.0))

    model.learn(StepWork(128, 4, 5.0), 30.0)

    assert model.predict_s(StepWork(128, 4, 5.0)) == pytest.approx(before, rel=0.1)


def test_change_of_speed_is_followed() -> None:
    model, random = taught(300), Random(2)
    for _ in range(600):
        work = some_work(random)
        model.learn(work, 2 * true_time_s(work))

    assert model.predict_s(StepWork(128, 4, 5.0)) == pytest.approx(2 * true_time_s(StepWork(128, 4, 5.0)), rel=0.1)


def test_tokens_within_a_target_take_about_that_long() -> None:
    model = taught(200)
    tokens = model.prefill_tokens_within(0.25, decodes=4, context_ktokens=5.0)

    assert true_time_s(StepWork(tokens, 4, 5.0)) == pytest.approx(0.25, rel=0.05)
    assert model.prefill_tokens_within(0.01, decodes=4, context_ktokens=5.0) == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 4096), st.integers(0, 256), st.floats(0, 100), st.floats(allow_nan=True, allow_infinity=True)),
        max_size=60,
    )
)
def test_coefficients_stay_within_their_bounds_whatever_is_measured(steps: list[tuple[int, int, float, float]]) -> None:
    model = StepTimeModel()
    for prefill, decodes, context, measured_s in steps:
        model.learn(StepWork(prefill, decodes, context), measured_s)

    low, high, now = DEFAULT_BOUNDS.lowest, DEFAULT_BOUNDS.highest, model.coefficients
    for name in ("base_s", "prefill_token_s", "decode_s", "context_ktoken_s"):
        assert getattr(low, name) * 0.999 <= getattr(now, name) <= getattr(high, name) * 1.001
