"""The engine's state as one object that everybody may read and few may change."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from services.engine.domain import EngineState
from services.engine.policy.life import LifeFacts, state_of

_log = structlog.get_logger(__name__)

Listener = Callable[[EngineState], None]


class Life:
    """Holds the facts and derives the state; listeners hear of each change of state, in order of subscription."""

    def __init__(self) -> None:
        self._facts = LifeFacts()
        self._listeners: list[Listener] = []

    @property
    def facts(self) -> LifeFacts:
        """What is known now."""
        return self._facts

    @property
    def state(self) -> EngineState:
        """State now."""
        return state_of(self._facts)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each new state."""
        self._listeners.append(listener)

    def learn(self, *, reason: str, **facts: bool) -> EngineState:
        """Set facts by name, log a change of state with its reason, and return the state."""
        before = self.state
        self._facts = replace(self._facts, **facts)
        after = self.state
        if after is not before:
            _log.info("state changed", before=before.name, after=after.name, reason=reason)
            for listener in self._listeners:
                listener(after)
        return after
