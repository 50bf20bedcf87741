import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.step_time import StepTimeCoefficients, StepTimeModel, StepWork, chunk_pairs

_PRIOR = StepTimeCoefficients(base_s=0.01, prefill_token_s=0.001, decode_s=0.001, context_token_s=1e-7, attended_pair_s=1e-8)
_CAPS = StepTimeCoefficients(base_s=1.0, prefill_token_s=0.05, decode_s=0.1, context_token_s=1e-4, attended_pair_s=1e-5)
_FREE = StepTimeCoefficients(base_s=0.01, prefill_token_s=0.0, decode_s=0.0, context_token_s=0.0, attended_pair_s=0.0)


def _model(prior: StepTimeCoefficients = _PRIOR) -> StepTimeModel:
    return StepTimeModel(prior=prior, caps=_CAPS)


def _true_s(work: StepWork) -> float:
    return 0.03 + 0.0024 * work.prefill_tokens + 0.002 * work.decodes + 1e-6 * work.context_tokens + 2e-7 * work.attended_pairs


def _some_work(rng: random.Random) -> StepWork:
    tokens, decodes = rng.choice((0, 16, 60, 150)), rng.randrange(1, 8)
    return StepWork(
        prefill_tokens=tokens,
        decodes=decodes,
        context_tokens=decodes * rng.randrange(20, 2000),
        attended_pairs=chunk_pairs(tokens=tokens, computed_tokens=rng.randrange(2000)),
    )


def _works() -> st.SearchStrategy[StepWork]:
    counts = st.integers(min_value=0, max_value=10_000)
    return st.builds(StepWork, prefill_tokens=counts, decodes=counts, context_tokens=counts, attended_pairs=counts)


def test_chunk_pairs_counts_the_computed_tokens_and_half_the_chunk() -> None:
    assert chunk_pairs(tokens=100, computed_tokens=1000) == 105_000


def test_predict_before_any_step_uses_the_prior() -> None:
    work = StepWork(prefill_tokens=100, decodes=2, context_tokens=1000, attended_pairs=5000)

    assert _model().predict_s(work) == pytest.approx(0.01 + 0.1 + 0.002 + 0.0001 + 0.00005)


def test_prediction_error_before_any_step_is_absent() -> None:
    assert _model().relative_error is None


def test_prediction_error_after_one_step_is_that_of_the_prior() -> None:
    model = _model()

    predicted_s = model.observe(StepWork(decodes=10), 0.04)

    assert predicted_s == pytest.approx(0.02)
    assert model.relative_error == pytest.approx(0.5)
    assert model.observations == 1


def test_coefficients_after_varied_steps_are_those_of_the_machine() -> None:
    rng, model = random.Random(3), _model()
    for _ in range(300):
        work = _some_work(rng)
        model.observe(work, _true_s(work))

    learnt = model.coefficients
    assert learnt.base_s == pytest.approx(0.03, rel=0.02)
    assert learnt.prefill_token_s == pytest.approx(0.0024, rel=0.02)
    assert learnt.decode_s == pytest.approx(0.002, rel=0.05)
    assert learnt.attended_pair_s == pytest.approx(2e-7, rel=0.05)
    assert model.relative_error is not None
    assert model.relative_error < 0.01


def test_machine_that_becomes_slower_is_followed() -> None:
    rng, model = random.Random(4), _model()
    for factor in (1, 2):
        for _ in range(300):
            work = _some_work(rng)
            model.observe(work, factor * _true_s(work))

    work = StepWork(prefill_tokens=100, decodes=3)
    assert model.predict_s(work) == pytest.approx(2 * _true_s(work), rel=0.1)


def test_one_stalled_step_moves_predictions_little() -> None:
    rng, model = random.Random(5), _model()
    for _ in range(200):
        work = _some_work(rng)
        model.observe(work, _true_s(work))
    usual = StepWork(prefill_tokens=60, decodes=2, context_tokens=1000)
    before_s = model.predict_s(usual)

    model.observe(usual, 100 * before_s)

    assert model.predict_s(usual) == pytest.approx(before_s, rel=0.2)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cold_s", [(3.0,), (3.0, 1.0, 2.0)], ids=["one", "three"])
def test_cold_first_steps_are_unlearnt_within_a_few_dozen(cold_s: tuple[float, ...], seed: int) -> None:
    rng, model = random.Random(seed), _model()
    errors = []
    for extra_s in (*cold_s, *[0.0] * 60):
        work = _some_work(rng)
        predicted_s = model.observe(work, extra_s + _true_s(work))
        errors.append(abs(predicted_s - _true_s(work)) / _true_s(work))

    assert sum(errors[-30:]) / 30 < 0.25


def test_steady_state_does_not_blow_the_unseen_up() -> None:
    model = _model()
    for _ in range(5000):
        model.observe(StepWork(decodes=4, context_tokens=400), 0.05)

    assert model.predict_s(StepWork(decodes=4, context_tokens=400)) == pytest.approx(0.05, rel=0.01)
    assert model.coefficients.prefill_token_s == pytest.approx(_PRIOR.prefill_token_s)


@pytest.mark.parametrize("seconds", [0.0, -0.1, math.nan])
def test_observe_without_a_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        _model().observe(StepWork(decodes=1), seconds)


@given(st.lists(st.tuples(_works(), st.floats(min_value=1e-6, max_value=1e4)), max_size=60))
def test_coefficients_after_any_steps_stay_in_bounds(steps: list[tuple[StepWork, float]]) -> None:
    model = _model()
    for work, seconds in steps:
        model.observe(work, seconds)

    for value, cap in zip(vars(model.coefficients).values(), vars(_CAPS).values(), strict=True):
        assert 0 <= value <= cap * (1 + 1e-9)


@given(_works(), st.floats(min_value=0.001, max_value=2.0), st.integers(min_value=0, max_value=4000))
def test_most_prefill_tokens_fit_the_target_and_one_more_does_not(beside: StepWork, target_s: float, computed: int) -> None:
    model = _model()
    tokens = model.most_prefill_tokens(target_s=target_s, beside=beside, computed_tokens=computed)

    def step_s(tokens: int) -> float:
        pairs = tokens * computed + tokens * tokens / 2
        return model.predict_s(beside) + tokens * _PRIOR.prefill_token_s + pairs * _PRIOR.attended_pair_s

    assert tokens == 0 or step_s(tokens) <= target_s + 1e-9
    assert step_s(tokens + 1) > target_s - 1e-9


def test_most_prefill_tokens_by_exact_numbers() -> None:
    prior = StepTimeCoefficients(base_s=0.02, prefill_token_s=0.002, decode_s=0.005, context_token_s=0.0, attended_pair_s=0.0)

    assert _model(prior).most_prefill_tokens(target_s=0.1001, beside=StepWork(decodes=2), computed_tokens=500) == 35


def test_most_prefill_tokens_where_tokens_cost_nothing_is_unbounded() -> None:
    assert _model(_FREE).most_prefill_tokens(target_s=0.1, beside=StepWork(), computed_tokens=0) == 2**31
