"""The simulated engine's step: order, budget, slots and blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.step_plan import StepPlan, StepView, WaitingView, plan_step


def view(
    *,
    decoding: int = 0,
    prefilling: tuple[int, ...] = (),
    waiting: tuple[tuple[int, int], ...] = (),
    sequences: int = 8,
    tokens: int = 100,
    blocks: int = 50,
) -> StepView:
    return StepView(
        decoding=decoding,
        prefilling=prefilling,
        waiting=[WaitingView(*each) for each in waiting],
        max_active_sequences=sequences,
        max_batched_tokens=tokens,
        free_blocks=blocks,
    )


@pytest.mark.parametrize(
    ("given_view", "expected"),
    [
        pytest.param(view(), (0, (), ()), id="nothing to do"),
        pytest.param(view(decoding=5), (5, (), ()), id="decodes only"),
        pytest.param(view(decoding=5, tokens=3), (3, (), ()), id="budget below the decodes"),
        pytest.param(view(decoding=4, prefilling=(200,)), (4, (96,), ()), id="prompt takes what decodes leave"),
        pytest.param(view(prefilling=(60, 60, 60)), (0, (60, 40, 0), ()), id="oldest prompt first"),
        pytest.param(view(waiting=((30, 2), (90, 3))), (0, (), (30, 70)), id="last admitted is chunked"),
        pytest.param(view(waiting=((30, 2), (70, 3), (5, 1))), (0, (), (30, 70)), id="no budget for the third"),
        pytest.param(view(decoding=7, waiting=((1, 1), (1, 1))), (7, (), (1,)), id="one slot left"),
        pytest.param(view(decoding=9, waiting=((1, 1),)), (9, (), ()), id="slots tuned below what runs"),
        pytest.param(view(waiting=((10, 30), (10, 30), (10, 1))), (0, (), (10,)), id="one that does not fit holds back"),
    ],
)
def test_plan_step_of_a_view_fills_in_order(given_view: StepView, expected: tuple[int, object, object]) -> None:
    plan = plan_step(given_view)
    assert (plan.decodes, plan.prefill_tokens, plan.admitted_tokens) == expected


def test_prompt_tokens_of_a_plan_sum_started_and_admitted() -> None:
    assert StepPlan(decodes=3, prefill_tokens=(4, 0), admitted_tokens=(5, 6)).prompt_tokens == 15


@given(
    decoding=st.integers(0, 80),
    prefilling=st.lists(st.integers(1, 500), max_size=10),
    waiting=st.lists(st.tuples(st.integers(1, 500), st.integers(0, 40)), max_size=20),
    sequences=st.integers(1, 64),
    tokens=st.integers(16, 600),
    blocks=st.integers(0, 100),
)
def test_plan_step_of_any_view_stays_within_every_limit(
    decoding: int, prefilling: list[int], waiting: list[tuple[int, int]], sequences: int, tokens: int, blocks: int
) -> None:
    plan = plan_step(
        view(
            decoding=decoding,
            prefilling=tuple(prefilling),
            waiting=tuple(waiting),
            sequences=sequences,
            tokens=tokens,
            blocks=blocks,
        )
    )
    admitted = len(plan.admitted_tokens)
    assert plan.decodes + plan.prompt_tokens <= tokens
    assert admitted == 0 or decoding + len(prefilling) + admitted <= sequences
    assert sum(need for _, need in waiting[:admitted]) <= blocks
    assert all(chunk <= left for chunk, left in zip(plan.prefill_tokens, prefilling, strict=True))
    assert all(0 < chunk <= need for chunk, (need, _) in zip(plan.admitted_tokens, waiting, strict=False))
