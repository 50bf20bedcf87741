"""The state of an engine, derived from what is known of it."""

from dataclasses import dataclass

from services.engine.domain import EngineState


@dataclass(frozen=True, kw_only=True)
class LifeFacts:
    """What is known: each fact is set by the part that finds it out."""

    loaded: bool = False
    warmed: bool = False
    draining: bool = False
    stalled: bool = False
    lost: bool = False


def state_of(facts: LifeFacts) -> EngineState:
    """Return the state: the worst fact wins, and a drain asked for while warming holds at once."""
    if facts.lost or facts.stalled:
        return EngineState.UNHEALTHY
    if not facts.loaded:
        return EngineState.STARTING
    if facts.draining:
        return EngineState.DRAINING
    return EngineState.SERVING if facts.warmed else EngineState.WARMING
