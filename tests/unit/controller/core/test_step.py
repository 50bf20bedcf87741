"""The whole step: guards, overrides, what is held, what is sent."""

from dataclasses import replace

import pytest

from services.controller.core.decision import Actuation, SendTuning
from services.controller.core.inputs import EngineInputs
from services.controller.core.memory import ControllerState, Held
from services.controller.core.step import FORGET_AFTER_S, decide, resume, settle, step
from services.controller.domain import DecisionAction as Action
from services.controller.domain import DecisionReason as Reason
from services.controller.domain import EngineState, Tuning
from tests.unit.controller.samples import NO_STATE, SETTINGS, inputs, memory, override, reading, tick

HELD_24 = memory(
    target=Tuning(max_active_sequences=24), held=Held(tuning=Tuning(max_active_sequences=24), at_s=99.0), changed_at_s=99.0
)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(inputs(reading=reading(age_s=None)), Reason.TELEMETRY_STALE, id="no telemetry yet"),
        pytest.param(inputs(reading=reading(age_s=3.1)), Reason.TELEMETRY_STALE, id="old telemetry"),
        pytest.param(inputs(reading=reading(tuning=Tuning())), Reason.TELEMETRY_STALE, id="tuning unknown"),
        pytest.param(inputs(reading=reading(state=EngineState.WARMING)), Reason.ENGINE_NOT_SERVING, id="warming"),
        pytest.param(inputs(reading=reading(state=EngineState.DRAINING)), Reason.ENGINE_NOT_SERVING, id="draining"),
        pytest.param(inputs(paused=True), Reason.PAUSED, id="paused"),
        pytest.param(inputs(memory=memory(fenced=True)), Reason.FENCED, id="fenced"),
        pytest.param(inputs(reading=reading(pool="realtime")), Reason.STEADY, id="pool without law"),
        pytest.param(inputs(memory=memory(changed_at_s=90.1)), Reason.COOLDOWN, id="9.9 s after a change"),
        pytest.param(inputs(reading=reading(p99_ms=50.0, count=3)), Reason.TOO_FEW_SAMPLES, id="three samples"),
    ],
)
def test_decide_guarded_engine_holds_and_sends_nothing(given: EngineInputs, reason: Reason) -> None:
    verdict = decide(given, SETTINGS)
    assert (verdict.decision.action, verdict.decision.reason) == (Action.HOLD, reason)
    assert verdict.decision.before == verdict.decision.after
    assert verdict.effect is None


@pytest.mark.parametrize(
    ("given", "action", "sequences"),
    [
        pytest.param(inputs(), Action.GROW, 24, id="room"),
        pytest.param(inputs(reading=reading(p99_ms=200.0)), Action.SHRINK, 14, id="over the SLO"),
        pytest.param(inputs(memory=memory(changed_at_s=90.0)), Action.GROW, 24, id="cooldown over"),
    ],
)
def test_decide_law_asked_sends_the_new_limit(given: EngineInputs, action: Action, sequences: int) -> None:
    verdict = decide(given, SETTINGS)
    wanted = Tuning(max_active_sequences=sequences)
    assert verdict.decision.action is action
    assert verdict.decision.after == Tuning(max_active_sequences=sequences, max_batched_tokens=512)
    assert verdict.effect == SendTuning(engine_id="batch-1", tuning=wanted, is_renewal=False)
    assert verdict.memory.changed_at_s == 100.0


def test_decide_growth_remembers_p99_until_its_effect_is_judged() -> None:
    after = decide(inputs(reading=reading(p99_ms=80.0)), SETTINGS).memory
    assert after.growth_p99_ms == 80.0
    few = decide(inputs(now_s=120.0, memory=after, reading=reading(limit=24, p99_ms=95.0, count=2)), SETTINGS)
    assert few.memory.growth_p99_ms == 80.0
    hurt = decide(inputs(now_s=120.0, memory=after, reading=reading(limit=24, p99_ms=95.0)), SETTINGS)
    assert hurt.decision.reason is Reason.GROWTH_HURT
    assert (hurt.memory.growth_p99_ms, hurt.memory.growth_factor) == (None, 1.3)


def test_override_wins_over_the_law_and_names_its_decision_once() -> None:
    given = inputs(override=override(max_active_sequences=8), paused=True)
    first = decide(given, SETTINGS)
    assert (first.decision.action, first.decision.override_id) == (Action.OVERRIDE, "dec-o")
    assert first.effect == SendTuning(engine_id="batch-1", tuning=Tuning(max_active_sequences=8), is_renewal=False)
    second = decide(replace(given, memory=first.memory), SETTINGS)
    assert (second.decision.action, second.decision.reason) == (Action.HOLD, Reason.OVERRIDDEN)
    assert second.decision.override_id == ""


def test_override_over_the_limits_is_clamped() -> None:
    verdict = decide(inputs(override=override(max_active_sequences=1000, max_batched_tokens=1)), SETTINGS)
    assert verdict.memory.target == Tuning(max_active_sequences=64, max_batched_tokens=16)


def test_override_expired_law_resumes_from_its_value() -> None:
    held = decide(inputs(override=override(max_active_sequences=8)), SETTINGS).memory
    later = inputs(
        now_s=1_200.0, wall_s=2_000.0, memory=held, override=override(max_active_sequences=8), reading=reading(limit=8)
    )
    verdict = decide(later, SETTINGS)
    assert (verdict.decision.reason, verdict.memory.target) == (Reason.ROOM_TO_GROW, Tuning(max_active_sequences=16))


def test_override_expired_value_without_law_returns_to_what_was_displaced() -> None:
    held = decide(inputs(override=override(max_batched_tokens=64)), SETTINGS).memory
    verdict = decide(inputs(wall_s=2_000.0, memory=held, override=override(max_batched_tokens=64)), SETTINGS)
    assert (verdict.decision.action, verdict.decision.reason) == (Action.GROW, Reason.OVERRIDDEN)
    assert verdict.memory.target == Tuning(max_batched_tokens=512)


def test_override_expired_with_displaced_value_unknown_is_let_go() -> None:
    blind = reading(pool="realtime", age_s=None, tuning=Tuning())
    held = decide(inputs(reading=blind, override=override(max_batched_tokens=64)), SETTINGS).memory
    verdict = decide(inputs(reading=blind, memory=held), SETTINGS)
    assert (verdict.memory.target, verdict.effect) == (Tuning(), None)


def test_override_of_batched_tokens_leaves_sequences_to_the_law() -> None:
    held = decide(inputs(override=override(max_batched_tokens=64)), SETTINGS).memory
    verdict = decide(inputs(now_s=120.0, memory=held, override=override(max_batched_tokens=64)), SETTINGS)
    assert verdict.memory.target == Tuning(max_active_sequences=24, max_batched_tokens=64)


@pytest.mark.parametrize(
    ("now_s", "shown", "age_s", "effect"),
    [
        pytest.param(100.0, 24, 0.1, None, id="held and shown"),
        pytest.param(100.0, 16, 1.5, None, id="reading from before the confirmation"),
        pytest.param(100.0, 16, 0.1, False, id="the engine lost it"),
        pytest.param(109.0, 24, 0.1, True, id="a third of the lease has passed"),
        pytest.param(109.0, 24, 50.0, True, id="renewed without telemetry too"),
    ],
)
def test_decide_held_tuning_is_sent_when_lost_or_ageing(now_s: float, shown: int, age_s: float, effect: bool | None) -> None:
    verdict = decide(inputs(now_s=now_s, memory=HELD_24, reading=reading(limit=shown, age_s=age_s, running=0)), SETTINGS)
    assert (None if verdict.effect is None else verdict.effect.is_renewal) == effect


@pytest.mark.parametrize(
    ("shown", "now_s", "is_sent"),
    [pytest.param(24, 109.0, True, id="renewal"), pytest.param(16, 100.0, False, id="change")],
)
def test_decide_paused_only_renews(shown: int, now_s: float, is_sent: bool) -> None:
    verdict = decide(inputs(now_s=now_s, paused=True, memory=HELD_24, reading=reading(limit=shown)), SETTINGS)
    assert (verdict.effect is not None) == is_sent


@pytest.mark.parametrize("state", [EngineState.STARTING, EngineState.WARMING, EngineState.UNHEALTHY])
def test_decide_engine_that_makes_no_steps_gets_nothing(state: EngineState) -> None:
    given = inputs(reading=reading(state=state), override=override(max_active_sequences=8))
    assert decide(given, SETTINGS).effect is None


def test_settle_clamped_answer_becomes_the_target() -> None:
    state = step(NO_STATE, tick(reading()), SETTINGS).state
    applied = Actuation(engine_id="batch-1", applied=Tuning(max_active_sequences=20, max_batched_tokens=512))
    after = settle(state, [applied], now_s=101.0).engines["batch-1"]
    assert (after.target, after.held) == (Tuning(max_active_sequences=20), Held(tuning=after.target, at_s=101.0))


def test_settle_failure_is_sent_again_next_tick() -> None:
    first = step(NO_STATE, tick(reading()), SETTINGS)
    state = settle(first.state, [Actuation(engine_id="batch-1", error="away")], now_s=100.1)
    again = step(state, tick(reading(), now_s=101.0), SETTINGS)
    assert again.verdicts[0].decision.reason is Reason.COOLDOWN
    assert again.effects == first.effects


def test_settle_newer_controller_fences_until_the_engine_restarts() -> None:
    first = step(NO_STATE, tick(reading()), SETTINGS)
    state = settle(first.state, [Actuation(engine_id="batch-1", error="ABORTED", fenced=True)], now_s=100.1)
    assert step(state, tick(reading(), now_s=200.0), SETTINGS).effects == ()
    restarted = step(state, tick(reading(epoch=2), now_s=200.0), SETTINGS)
    assert restarted.effects[0].tuning == Tuning(max_active_sequences=24)


def test_step_restarted_engine_gets_law_and_override_values_again() -> None:
    both = {"batch-1": override(max_active_sequences=8, max_batched_tokens=64)}
    first = step(NO_STATE, tick(reading(), overrides=both), SETTINGS)
    applied = Actuation(engine_id="batch-1", applied=Tuning(max_active_sequences=8, max_batched_tokens=64))
    state = settle(first.state, [applied], now_s=100.1)
    again = step(state, tick(reading(epoch=2), now_s=101.0, overrides=both), SETTINGS)
    assert again.effects == first.effects


def test_resume_sends_targets_again_after_a_restart_of_the_controller() -> None:
    state = resume({"batch-1": HELD_24}, now_s=5.0)
    verdict = step(state, tick(reading(limit=24), now_s=5.0), SETTINGS).verdicts[0]
    assert verdict.decision.reason is Reason.COOLDOWN
    assert verdict.effect == SendTuning(engine_id="batch-1", tuning=Tuning(max_active_sequences=24), is_renewal=False)


@pytest.mark.parametrize(
    ("away_s", "is_known"),
    [pytest.param(FORGET_AFTER_S - 1, True, id="soon back"), pytest.param(FORGET_AFTER_S, False, id="long gone")],
)
def test_step_absent_engine_is_forgotten_after_a_while(away_s: float, is_known: bool) -> None:
    state = ControllerState(engines={"batch-1": memory(seen_at_s=100.0)})
    after = step(state, tick(now_s=100.0 + away_s), SETTINGS).state
    assert ("batch-1" in after.engines) == is_known
