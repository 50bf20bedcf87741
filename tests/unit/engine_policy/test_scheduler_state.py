import pytest

from services.engine.policy.scheduler_tuning import Envelope
from services.engine.policy.step_budget import BudgetReason, StepBudget
from services.engine.policy.step_time import StepWork
from services.engine.vllm_ext.scheduler_state import SchedulerState, state_from_config
from services.engine.vllm_ext.step_plan import StepRecord

_ENVELOPE = Envelope(max_active_sequences=16, max_batched_tokens=512, total_blocks=100)
_PRIOR = {"base_s": 0.02, "prefill_token_s": 0.0, "decode_s": 0.0, "context_token_s": 0.0, "attended_pair_s": 0.0}


def _state(config: dict[str, object] | None = None) -> SchedulerState:
    return state_from_config(config or {}, envelope=_ENVELOPE, max_active_sequences=8, max_batched_tokens=256)


def _record(started_s: float, *, tokens: int = 4) -> StepRecord:
    return StepRecord(work=StepWork(decodes=tokens), started_s=started_s, realtime_tokens=tokens, batch_tokens=0)


def test_configured_tuning_and_prior_hold_from_the_start() -> None:
    state = _state({"tuning": {"realtime_step_s": 0.05, "max_active_sequences": 99}, "prior": _PRIOR})

    assert (state.tuning.realtime_step_s, state.tuning.max_active_sequences) == (0.05, 16)
    assert state.model.predict_s(StepWork()) == 0.02
    assert state.defaults == state.tuning


def test_unknown_configuration_is_refused() -> None:
    with pytest.raises(KeyError, match="unknown tuning"):
        _state({"tuning": {"step": 1}})


def test_step_time_of_a_single_step_is_from_its_start_to_its_end() -> None:
    state = _state()
    state.finish_step(_record(10.0), now_s=10.03)

    assert state.step_s.value == pytest.approx(0.03)
    assert (state.counters.steps, state.counters.realtime_tokens) == (1, 4)


def test_step_time_of_overlapping_steps_is_from_end_to_end() -> None:
    state = _state()
    state.finish_step(_record(10.0), now_s=10.05)
    # Handed over while the first one ran.
    state.finish_step(_record(10.01), now_s=10.09)

    assert state.model.observations == 2
    assert state.step_s.value is not None
    assert 0.04 < state.step_s.value < 0.05


def test_empty_step_teaches_nothing() -> None:
    state = _state()
    state.finish_step(_record(10.0, tokens=0), now_s=10.5)

    assert (state.model.observations, state.counters.steps, state.step_s.value) == (0, 0, None)


def test_short_steps_teach_every_time_at_first_then_fifty_times_a_second() -> None:
    state = _state()
    for number in range(1500):
        state.finish_step(_record(number * 0.005), now_s=(number + 1) * 0.005)

    assert state.counters.steps == 1500
    assert state.model.observations == pytest.approx(500 + 1000 / 4, abs=60)


def test_reasons_of_budgets_are_counted() -> None:
    state = _state()
    for reason in (BudgetReason.FLOOR, BudgetReason.FLOOR, BudgetReason.NO_REALTIME):
        state.note_budget(StepBudget(realtime_tokens=0, batch_tokens=0, target_s=0.1, reason=reason))

    assert state.counters.budget_reasons == {"floor": 2, "no_realtime": 1}
