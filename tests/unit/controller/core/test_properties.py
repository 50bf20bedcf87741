"""What holds for every path that an engine may take."""

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from services.controller.core.decision import Actuation
from services.controller.core.readings import EngineReading, LatencyReading
from services.controller.core.step import StepResult, settle, step
from services.controller.domain import DecisionAction, DecisionReason, EngineState, Limits, Override, Tuning
from tests.unit.controller.samples import NO_STATE, SETTINGS, reading, tick

_LIMITS = Limits(max_active_sequences=50, max_batched_tokens=2048)

_latencies = st.none() | st.builds(LatencyReading, count=st.integers(1, 200), p99_ms=st.floats(0.1, 1_000, allow_nan=False))
_ratios = st.none() | st.floats(0, 1)


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """What happens at one tick, the tick's distance from the last, and whether the engine takes what is sent."""

    gap_s: float
    reading: EngineReading
    paused: bool
    override: Override | None
    is_reached: bool


_readings = st.builds(
    reading,
    limit=st.integers(1, 50),
    limits=st.just(_LIMITS),
    state=st.sampled_from(EngineState),
    epoch=st.integers(1, 2),
    age_s=st.none() | st.floats(0, 5),
    running=st.integers(0, 60),
    waiting=st.integers(0, 60),
    realtime=_latencies,
    auto=_latencies,
    kv_usage_ratio=_ratios,
    fragmentation_ratio=_ratios,
)
_tunings = st.builds(
    Tuning,
    max_active_sequences=st.none() | st.integers(1, 10_000),
    max_batched_tokens=st.none() | st.integers(1, 10_000),
)
_overrides = st.builds(
    Override,
    engine_id=st.just("batch-1"),
    tuning=_tunings,
    expires_at_s=st.floats(900, 1_400),
    reason=st.just("r"),
    decision_id=st.sampled_from(["dec-a", "dec-b"]),
)
_moments = st.builds(
    _Moment,
    gap_s=st.floats(0.1, 30),
    reading=_readings,
    paused=st.booleans(),
    override=st.none() | _overrides,
    is_reached=st.booleans(),
)
_paths = st.lists(_moments, min_size=1, max_size=15)


def _walk(path: list[_Moment]) -> list[StepResult]:
    state, now_s, in_force, results = NO_STATE, 0.0, Tuning(max_active_sequences=16, max_batched_tokens=512), []
    for moment in path:
        now_s += moment.gap_s
        overrides = {} if moment.override is None else {"batch-1": moment.override}
        seen = replace(moment.reading, tuning=in_force)
        result = step(state, tick(seen, now_s=now_s, paused=moment.paused, overrides=overrides), SETTINGS)
        results.append(result)
        state = result.state
        for effect in result.effects:
            in_force = effect.tuning.over(in_force) if moment.is_reached else in_force
            error = "" if moment.is_reached else "away"
            state = settle(state, [Actuation(engine_id="batch-1", applied=in_force, error=error)], now_s=now_s)
    return results


@given(_paths)
@settings(max_examples=150, deadline=None)
def test_step_any_path_sends_only_tuning_within_the_limits(path: list[_Moment]) -> None:
    for result in _walk(path):
        for effect in result.effects:
            assert effect.tuning == effect.tuning.clamped(_LIMITS)
            assert not effect.tuning.is_empty


@given(_paths)
@settings(max_examples=50, deadline=None)
def test_step_same_path_gives_the_same_results(path: list[_Moment]) -> None:
    assert _walk(path) == _walk(path)


@given(_paths)
@settings(max_examples=150, deadline=None)
def test_step_any_path_law_changes_keep_the_cooldown(path: list[_Moment]) -> None:
    changed_at_s = list[float]()
    for result in _walk(path):
        verdict = result.verdicts[0]
        if verdict.decision.reason in {DecisionReason.LATENCY_OVER_SLO, DecisionReason.ROOM_TO_GROW}:
            changed_at_s.append(verdict.inputs.now_s)
    assert all(later - earlier >= SETTINGS.law.cooldown_s for earlier, later in pairwise(changed_at_s))


@given(_paths)
@settings(max_examples=150, deadline=None)
def test_step_any_path_growth_factor_stays_in_its_range(path: list[_Moment]) -> None:
    for result in _walk(path):
        assert 1.3 <= result.verdicts[0].decision.growth_factor <= SETTINGS.law.growth_factor


@given(_paths)
@settings(max_examples=150, deadline=None)
def test_step_any_path_paused_tick_without_override_changes_no_engine(path: list[_Moment]) -> None:
    for moment, result in zip(path, _walk(path), strict=True):
        if moment.paused and moment.override is None:
            assert all(effect.is_renewal for effect in result.effects)
            assert result.verdicts[0].decision.reason not in {DecisionReason.LATENCY_OVER_SLO, DecisionReason.ROOM_TO_GROW}
            assert result.verdicts[0].decision.action is not DecisionAction.OVERRIDE
