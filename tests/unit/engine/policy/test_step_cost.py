"""Time of a step."""

import pytest

from services.engine.policy.step_cost import StepCost, step_s

COST = StepCost(base_ms=20.0, prefill_token_ms=3.0, decode_ms=4.0, context_ktoken_ms=2.0)


@pytest.mark.parametrize(
    ("prompt_tokens", "decodes", "context_tokens", "expected_s"),
    [
        pytest.param(0, 0, 0, 0.020, id="base"),
        pytest.param(100, 0, 0, 0.320, id="prompt"),
        pytest.param(0, 5, 0, 0.040, id="decodes"),
        pytest.param(0, 5, 2500, 0.045, id="context"),
    ],
)
def test_step_s_of_a_step_is_linear(prompt_tokens: int, decodes: int, context_tokens: int, expected_s: float) -> None:
    taken_s = step_s(COST, prompt_tokens=prompt_tokens, decodes=decodes, context_tokens=context_tokens)
    assert taken_s == pytest.approx(expected_s)
