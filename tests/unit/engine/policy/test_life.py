"""The state of an engine."""

import pytest

from services.engine.domain import EngineState
from services.engine.policy.life import LifeFacts, state_of


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        pytest.param(LifeFacts(), EngineState.STARTING, id="nothing yet"),
        pytest.param(LifeFacts(loaded=True), EngineState.WARMING, id="loaded"),
        pytest.param(LifeFacts(loaded=True, warmed=True), EngineState.SERVING, id="warmed"),
        pytest.param(LifeFacts(loaded=True, draining=True), EngineState.DRAINING, id="drained while warming"),
        pytest.param(LifeFacts(loaded=True, warmed=True, draining=True), EngineState.DRAINING, id="drained"),
        pytest.param(LifeFacts(loaded=True, warmed=True, stalled=True), EngineState.UNHEALTHY, id="stalled"),
        pytest.param(LifeFacts(loaded=True, draining=True, lost=True), EngineState.UNHEALTHY, id="lost while draining"),
    ],
)
def test_state_of_facts_is_the_worst(facts: LifeFacts, state: EngineState) -> None:
    assert state_of(facts) is state
