"""Filters, prediction and pick, with exact numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.core.lanes import Lane
from services.router.domain import EngineState, EngineView, Freshness, Load, Need
from services.router.policy.engine_choice import Eligible, Refusal, Refused, filter_engines, pick, predicted_wait_s

POOLS = ("realtime", "batch")


def load(
    *,
    freshness: Freshness = Freshness.FRESH,
    backlog: int = 0,
    unseen: int = 0,
    in_flight: int = 0,
    rate: float | None = 1000.0,
    step_s: float | None = 0.01,
) -> Load:
    return Load(freshness, backlog, unseen, in_flight, rate, step_s)


def engine(
    name: str,
    *,
    pool: str = "realtime",
    state: EngineState = EngineState.SERVING,
    suspect: bool = False,
    context: int = 512,
    of: Load | None = None,
) -> EngineView:
    return EngineView(name, pool, state, suspect, context, of or load())


@pytest.mark.parametrize(
    ("lane", "engines", "names"),
    [
        pytest.param(Lane.REALTIME, [engine("r"), engine("b", pool="batch")], ["r"], id="realtime-keeps-to-its-first-pool"),
        pytest.param(
            Lane.REALTIME,
            [engine("r", state=EngineState.DRAINING), engine("b", pool="batch")],
            ["b"],
            id="realtime-takes-the-second-pool-when-the-first-is-away",
        ),
        pytest.param(Lane.AUTO, [engine("r"), engine("b", pool="batch")], ["r", "b"], id="auto-takes-both-pools"),
        pytest.param(Lane.REALTIME, [engine("r"), engine("x", pool="other")], ["r"], id="other-pools-are-left-out"),
        pytest.param(
            Lane.REALTIME, [engine("s", context=100), engine("l", context=4096)], ["l"], id="context-must-hold-the-request"
        ),
        pytest.param(Lane.REALTIME, [engine("a", suspect=True), engine("b")], ["b"], id="suspects-are-passed-over"),
        pytest.param(Lane.REALTIME, [engine("a", suspect=True)], ["a"], id="a-suspect-is-better-than-none"),
    ],
)
def test_filter_leaves_the_engines_that_may_take_the_request(lane: Lane, engines: list[EngineView], names: list[str]) -> None:
    found = filter_engines(engines, lane=lane, pools=POOLS, need=Need(prompt_tokens=200, new_tokens=20))

    assert isinstance(found, Eligible)
    assert [view.engine_id for view in found.engines] == names


@pytest.mark.parametrize(
    ("engines", "refused"),
    [
        pytest.param([], Refused(refusal=Refusal.NO_ENGINE, max_context_tokens=0), id="none"),
        pytest.param(
            [engine("a", state=EngineState.DRAINING)],
            Refused(refusal=Refusal.ALL_DRAINING, max_context_tokens=512),
            id="all-draining",
        ),
        pytest.param(
            [engine("a", state=EngineState.UNHEALTHY), engine("b", state=EngineState.DRAINING)],
            Refused(refusal=Refusal.NO_ENGINE, max_context_tokens=512),
            id="one-draining-one-unhealthy",
        ),
        pytest.param([engine("a", context=200)], Refused(refusal=Refusal.TOO_LONG, max_context_tokens=200), id="too-long"),
        pytest.param(
            [engine("a", context=100), engine("b", pool="batch", state=EngineState.UNHEALTHY)],
            Refused(refusal=Refusal.NO_ENGINE, max_context_tokens=512),
            id="the-engine-that-could-hold-it-is-away",
        ),
        pytest.param(
            [engine("a", context=100), engine("b", context=0, state=EngineState.STARTING)],
            Refused(refusal=Refusal.NO_ENGINE, max_context_tokens=100),
            id="an-engine-of-unknown-context-is-coming",
        ),
        pytest.param(
            [engine("a", context=100), engine("b", pool="other")],
            Refused(refusal=Refusal.TOO_LONG, max_context_tokens=100),
            id="engines-of-other-pools-do-not-count",
        ),
    ],
)
def test_filter_says_why_there_is_none(engines: list[EngineView], refused: Refused) -> None:
    assert filter_engines(engines, lane=Lane.REALTIME, pools=POOLS, need=Need(prompt_tokens=200, new_tokens=1)) == refused


@pytest.mark.parametrize(
    ("of", "wait_s"),
    [
        pytest.param(load(backlog=500, unseen=250), 0.76, id="backlog-and-own-calls-at-the-measured-rate-and-a-step"),
        pytest.param(load(backlog=500, rate=None, step_s=None), 0.55, id="assumed-rate-and-step-where-unknown"),
        pytest.param(load(freshness=Freshness.STALE, backlog=9999, unseen=100), 0.15, id="stale-counts-own-calls-only"),
        pytest.param(load(freshness=Freshness.ABSENT), 0.05, id="absent-is-neither-free-nor-full"),
    ],
)
def test_predicted_wait(of: Load, wait_s: float) -> None:
    assert predicted_wait_s(of) == pytest.approx(wait_s)


def test_pick_takes_the_least_wait_then_the_fewest_in_flight_then_the_tie() -> None:
    waits = [engine("slow", of=load(backlog=100)), engine("fast")]
    equal = [engine("busy", of=load(in_flight=2)), engine("idle", of=load(in_flight=1)), engine("idle2", of=load(in_flight=1))]

    assert pick(waits, tie=0.0).engine_id == "fast"
    assert pick(equal, tie=0.49).engine_id == "idle"
    assert pick(equal, tie=0.5).engine_id == "idle2"


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.floats(0, 1, exclude_max=True))
def test_pick_never_takes_an_engine_with_a_longer_wait_than_another(backlogs: list[int], tie: float) -> None:
    engines = [engine(f"e{place}", of=load(backlog=backlog)) for place, backlog in enumerate(backlogs)]

    assert pick(engines, tie=tie).load.backlog_tokens == min(backlogs)
