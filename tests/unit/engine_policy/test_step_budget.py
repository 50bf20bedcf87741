from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.arrivals import Arrivals
from services.engine.policy.step_budget import (
    CHUNK_FLOOR_TOKENS,
    BatchDebt,
    BudgetReason,
    StepTargets,
    StepView,
    accrue,
    chunk,
    paid,
    plan_budget,
)
from services.engine.policy.step_time import StepTimeCoefficients, StepTimeModel, StepWork

# One millisecond a token and ten a step: budgets can be read off the targets.
_COEFFICIENTS = StepTimeCoefficients(
    base_s=0.01, prefill_token_s=0.001, decode_s=0.001, context_token_s=0.0, attended_pair_s=0.0
)
_CAPS = StepTimeCoefficients(base_s=1.0, prefill_token_s=0.05, decode_s=0.1, context_token_s=1e-4, attended_pair_s=1e-5)
_MODEL = StepTimeModel(prior=_COEFFICIENTS, caps=_CAPS)
_TARGETS = StepTargets(realtime_s=0.1001, idle_s=0.4001, max_batched_tokens=2048, chunk_tokens=512, batch_min_share_ratio=0.1)
_VIEW = StepView(
    now_s=100.0,
    decoding=StepWork(),
    realtime_prefill_tokens=0,
    realtime_present=False,
    batch_present=True,
    batch_computed_tokens=0,
    arrivals=Arrivals(),
)


def test_budget_without_realtime_fills_the_idle_target() -> None:
    budget = plan_budget(_VIEW, _TARGETS, _MODEL, BatchDebt())

    assert (budget.batch_tokens, budget.reason) == (390, BudgetReason.NO_REALTIME)


def test_budget_beside_realtime_fills_the_shorter_target() -> None:
    view = replace(_VIEW, realtime_present=True, decoding=StepWork(decodes=5, context_tokens=100), realtime_prefill_tokens=20)

    budget = plan_budget(view, _TARGETS, _MODEL, BatchDebt())

    assert (budget.batch_tokens, budget.reason) == (65, BudgetReason.REALTIME_PRESENT)


def test_budget_where_realtime_is_expected_lies_between_the_targets() -> None:
    view = replace(_VIEW, arrivals=Arrivals(last_s=100.0, mean_gap_s=0.5))

    budget = plan_budget(view, _TARGETS, _MODEL, BatchDebt())

    # A third of the arrivals come within -ln(0.67) · 0.5 s = 0.2002 s.
    assert (budget.batch_tokens, budget.reason) == (190, BudgetReason.REALTIME_EXPECTED)


def test_budget_where_nothing_fits_is_the_floor() -> None:
    view = replace(_VIEW, realtime_present=True, decoding=StepWork(decodes=100))

    budget = plan_budget(view, _TARGETS, _MODEL, BatchDebt())

    assert (budget.batch_tokens, budget.reason) == (CHUNK_FLOOR_TOKENS, BudgetReason.FLOOR)


def test_budget_of_a_batch_in_debt_is_what_is_owed() -> None:
    view = replace(_VIEW, realtime_present=True)

    budget = plan_budget(view, _TARGETS, _MODEL, BatchDebt(tokens=150.0, at_s=100.0))

    assert (budget.batch_tokens, budget.reason) == (150, BudgetReason.MINIMUM_SHARE)


def test_budget_of_a_batch_deep_in_debt_ends_at_the_idle_target() -> None:
    view = replace(_VIEW, realtime_present=True)

    assert plan_budget(view, _TARGETS, _MODEL, BatchDebt(tokens=9999.0, at_s=100.0)).batch_tokens == 390


def test_burst_of_realtime_prompts_is_cut_at_the_idle_target() -> None:
    view = replace(_VIEW, realtime_present=True, realtime_prefill_tokens=3000)

    budget = plan_budget(view, _TARGETS, _MODEL, BatchDebt())

    assert (budget.realtime_tokens, budget.batch_tokens) == (390, CHUNK_FLOOR_TOKENS)


def test_budget_in_static_mode_is_all_that_fits() -> None:
    view = replace(_VIEW, realtime_present=True, realtime_prefill_tokens=48, decoding=StepWork(decodes=8))

    budget = plan_budget(view, replace(_TARGETS, adaptive=False), _MODEL, BatchDebt())

    assert (budget.realtime_tokens, budget.batch_tokens, budget.reason) == (2040, 1992, BudgetReason.STATIC)


@given(
    decodes=st.integers(0, 64),
    realtime_tokens=st.integers(0, 5000),
    present=st.booleans(),
    owed=st.floats(0, 5000),
    computed=st.integers(0, 10_000),
    most=st.integers(64, 4096),
)
def test_budgets_together_stay_within_the_batched_tokens(
    decodes: int, realtime_tokens: int, present: bool, owed: float, computed: int, most: int
) -> None:
    view = replace(
        _VIEW,
        decoding=StepWork(decodes=decodes),
        realtime_prefill_tokens=realtime_tokens,
        realtime_present=present,
        batch_computed_tokens=computed,
    )

    budget = plan_budget(view, replace(_TARGETS, max_batched_tokens=most), _MODEL, BatchDebt(tokens=owed, at_s=100.0))

    used = min(realtime_tokens, budget.realtime_tokens) + budget.batch_tokens + decodes
    assert budget.batch_tokens >= 0
    assert used <= most


@pytest.mark.parametrize(
    ("wanted", "left", "size", "expected"),
    [
        pytest.param(100, 50, 512, 50, id="what is left of the class"),
        pytest.param(2000, 1000, 512, 512, id="the chunk"),
        pytest.param(10, 1000, 512, 10, id="what the request wants"),
        pytest.param(10, -5, 512, 0, id="nothing left"),
    ],
)
def test_chunk_is_the_least_of_its_bounds(wanted: int, left: int, size: int, expected: int) -> None:
    assert chunk(wanted_tokens=wanted, left_tokens=left, chunk_tokens=size) == expected


def test_debt_beside_realtime_grows_by_the_share() -> None:
    view = replace(_VIEW, realtime_present=True, now_s=101.0)

    debt = accrue(BatchDebt(tokens=5.0, at_s=100.0), view, _TARGETS, _MODEL)

    assert debt.tokens == pytest.approx(5 + 0.1 * 390 / 0.4001)


def test_debt_is_at_most_one_step_without_realtime() -> None:
    view = replace(_VIEW, realtime_present=True, now_s=10_000.0)

    assert accrue(BatchDebt(at_s=100.0), view, _TARGETS, _MODEL).tokens == 390


def test_debt_without_realtime_does_not_grow() -> None:
    assert accrue(BatchDebt(tokens=5.0, at_s=90.0), _VIEW, _TARGETS, _MODEL) == BatchDebt(tokens=5.0, at_s=100.0)


def test_debt_ends_with_the_batch_work() -> None:
    view = replace(_VIEW, batch_present=False, realtime_present=True)

    assert accrue(BatchDebt(tokens=50.0, at_s=90.0), view, _TARGETS, _MODEL).tokens == 0


def test_debt_is_paid_by_batch_tokens_and_never_turns_into_credit() -> None:
    assert paid(BatchDebt(tokens=50.0, at_s=1.0), batch_tokens=20).tokens == 30
    assert paid(BatchDebt(tokens=50.0, at_s=1.0), batch_tokens=80).tokens == 0


def test_minimum_share_under_sustained_realtime_load_is_kept() -> None:
    # Realtime decodes alone fill the target: only the floor and what is owed is left for batch.
    view = replace(_VIEW, realtime_present=True, decoding=StepWork(decodes=90))
    targets = replace(_TARGETS, batch_min_share_ratio=0.3)
    debt, given_tokens, now_s = BatchDebt(at_s=0.0), 0, 0.0
    while now_s < 60:
        debt = accrue(debt, replace(view, now_s=now_s), targets, _MODEL)
        budget = plan_budget(replace(view, now_s=now_s), targets, _MODEL, debt)
        debt = paid(debt, batch_tokens=budget.batch_tokens)
        given_tokens += budget.batch_tokens
        now_s += _MODEL.predict_s(StepWork(decodes=90, prefill_tokens=budget.batch_tokens))

    full_rate_per_s = 300 / 0.4001
    assert given_tokens >= 0.3 * full_rate_per_s * 60 * 0.95
