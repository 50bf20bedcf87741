"""Budget, forecast, order and preemption, one sample a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.arrivals import ArrivalForecast
from services.engine.policy.ordering import AGEING_S, Standing, is_late, missed_key, order_key
from services.engine.policy.preemption import PreemptionGate, Victim, choose_victim
from services.engine.policy.step_budget import (
    MIN_CHUNK_TOKENS,
    StepBudget,
    StepLoad,
    StepMode,
    StepTargets,
    chunk,
    next_budget,
)
from services.engine.policy.step_time import StepBounds, StepCoefficients, StepTimeModel

EXACT = StepCoefficients(base_s=0.04, prefill_token_s=0.002, decode_s=0.002, context_ktoken_s=0.0)
MODEL = StepTimeModel(prior=EXACT, bounds=StepBounds(lowest=EXACT, highest=EXACT))
TARGETS = StepTargets(realtime_s=0.1, batch_s=0.4, chunk_tokens=512, min_batch_share=0.05, expect_chance=0.3)
NOW_S = 1_800_000_000.0


def load(*, present: bool = False, chance: float = 0.0, realtime_tokens: int = 0, decodes: int = 0) -> StepLoad:
    return StepLoad(
        realtime_present=present,
        arrival_chance=chance,
        realtime_prefill_tokens=realtime_tokens,
        decodes=decodes,
        context_ktokens=0.0,
    )


@pytest.mark.parametrize(
    ("of", "budget"),
    [
        pytest.param(load(), StepBudget(batch_tokens=180, mode=StepMode.BATCH_ONLY), id="nobody-waits"),
        pytest.param(load(decodes=10), StepBudget(batch_tokens=170, mode=StepMode.BATCH_ONLY), id="decodes-take-their-part"),
        pytest.param(load(present=True), StepBudget(batch_tokens=30, mode=StepMode.REALTIME_PRESENT), id="realtime-is-there"),
        pytest.param(load(chance=0.3), StepBudget(batch_tokens=30, mode=StepMode.REALTIME_EXPECTED), id="realtime-is-expected"),
        pytest.param(load(chance=0.29), StepBudget(batch_tokens=180, mode=StepMode.BATCH_ONLY), id="realtime-is-unlikely"),
        pytest.param(
            load(present=True, realtime_tokens=10),
            StepBudget(batch_tokens=20, mode=StepMode.REALTIME_PRESENT),
            id="realtime-prompts-come-out-of-batchs-part",
        ),
        pytest.param(
            load(present=True, realtime_tokens=5000),
            StepBudget(batch_tokens=MIN_CHUNK_TOKENS, mode=StepMode.REALTIME_PRESENT),
            id="batch-keeps-a-minimum",
        ),
    ],
)
def test_budget_fills_the_step_to_its_target(of: StepLoad, budget: StepBudget) -> None:
    assert next_budget(MODEL, TARGETS, of) == budget


def test_minimum_share_of_batch_is_kept_under_sustained_realtime_load() -> None:
    half = StepTargets(realtime_s=0.05, batch_s=0.4, chunk_tokens=512, min_batch_share=0.5, expect_chance=0.3)

    assert next_budget(MODEL, half, load(present=True)).batch_tokens == 90


@pytest.mark.parametrize(
    ("wanted", "left", "tokens"),
    [(2000, 900, 512), (2000, 100, 100), (50, 100, 50), (50, 0, 0), (50, -3, 0)],
)
def test_chunk_is_within_prompt_budget_and_cap(wanted: int, left: int, tokens: int) -> None:
    assert chunk(wanted, left, TARGETS) == tokens


def test_forecast_follows_the_measured_rate() -> None:
    forecast = ArrivalForecast()
    assert forecast.chance_within(0.4, 0.0) == 0.0
    for number in range(50):
        forecast.arrived(number * 0.5)

    assert forecast.chance_within(0.4, 24.5) == pytest.approx(0.5507, abs=0.001)
    assert forecast.chance_within(0.4, 24.5 + 60) < 0.02


def test_forecast_after_a_long_pause_starts_anew() -> None:
    forecast = ArrivalForecast()
    for number in range(50):
        forecast.arrived(number * 0.5)
    forecast.arrived(100_000.0)

    assert forecast.chance_within(0.4, 100_000.0) < 0.001


def key(*, realtime: bool = False, priority: int = 0, arrived_s: float = NOW_S, deadline_s: float | None = None) -> int:
    return order_key(Standing(realtime, priority, arrived_s, deadline_s))


def test_order_is_realtime_by_deadline_then_late_realtime_then_batch() -> None:
    soon, later = key(realtime=True, deadline_s=NOW_S + 1), key(realtime=True, deadline_s=NOW_S + 2)
    without, late = key(realtime=True), missed_key(key(realtime=True, deadline_s=NOW_S - 1))
    urgent, batch = key(priority=-5), key()

    assert soon < later < without < late < urgent < batch


def test_missed_key_is_taken_once() -> None:
    late = missed_key(key(realtime=True, deadline_s=NOW_S - 1))

    assert missed_key(late) == late


def test_waiting_is_worth_priority() -> None:
    assert key(priority=1, arrived_s=NOW_S) < key(priority=0, arrived_s=NOW_S + AGEING_S + 0.1)


@pytest.mark.parametrize(
    ("of", "late"),
    [
        (Standing(True, 0, NOW_S, NOW_S - 0.1), True),
        (Standing(True, 0, NOW_S, NOW_S + 0.1), False),
        (Standing(True, 0, NOW_S, None), False),
        (Standing(False, 0, NOW_S, NOW_S - 0.1), False),
    ],
)
def test_only_realtime_with_a_deadline_can_be_late(of: Standing, late: bool) -> None:
    assert is_late(of, NOW_S) is late


def test_victim_is_the_one_with_least_to_lose() -> None:
    assert choose_victim([Victim("a", 900), Victim("b", 30), Victim("c", 400)]) == Victim("b", 30)
    assert choose_victim([]) is None


@given(st.lists(st.floats(0, 5), max_size=200))
def test_gate_never_allows_more_than_burst_and_rate(gaps_s: list[float]) -> None:
    gate, now_s, allowed = PreemptionGate(rate_per_s=0.5, burst=4), 0.0, 0
    for gap_s in gaps_s:
        now_s += gap_s
        allowed += gate.allows(now_s)

    assert allowed <= 4 + 0.5 * now_s + 1e-6
