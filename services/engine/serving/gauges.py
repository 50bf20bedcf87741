"""Gauges of an engine's present state.

They are read from the scraper's thread, so only single values are read there; what a backend must compute is computed in the
event loop and kept.
"""

import asyncio
from functools import partial

from libs.core.lanes import Lane
from libs.telemetry import names
from services.engine.domain import BackendSnapshot
from services.engine.serving.ledger import Ledger
from services.engine.serving.metrics import EngineMetrics
from services.engine.serving.telemetry import Sources

_UNKNOWN = float("nan")
_REFRESH_S = 1.0


class EngineGauges:
    """Owns the gauges. What is not measured is NaN."""

    def __init__(self, metrics: EngineMetrics, sources: Sources) -> None:
        self._sources = sources
        self._latest: BackendSnapshot | None = None
        ledger, desk = sources.ledger, sources.desk
        metrics.show_by_lane(names.ENGINE_WAITING, "Requests without a first token", partial(_waiting, ledger))
        metrics.show_by_lane(names.ENGINE_RUNNING, "Requests that generate", partial(_running, ledger))
        metrics.show(names.ENGINE_STATE, "State by its number in twinlane.common.v1.EngineState", self._state)
        metrics.show(names.ENGINE_STEP_SECONDS, "Smoothed time of a step", self._step_s)
        metrics.show(names.ENGINE_KV_USAGE_RATIO, "Share of cache blocks in use", self._kv_usage_ratio)
        metrics.show(
            names.ENGINE_MAX_ACTIVE_SEQUENCES, "Sequences that may run at once", lambda: desk.values.max_active_sequences
        )
        metrics.show(
            names.ENGINE_MAX_BATCHED_TOKENS, "Tokens that one step may process", lambda: desk.values.max_batched_tokens
        )

    async def keep_fresh(self) -> None:
        """Read the backend each second, until cancelled."""
        while True:
            self._latest = self._sources.backend.snapshot()
            await asyncio.sleep(_REFRESH_S)

    def _state(self) -> float:
        return self._sources.life.state

    def _step_s(self) -> float:
        return _UNKNOWN if self._latest is None else _number(self._latest.step_s)

    def _kv_usage_ratio(self) -> float:
        return _UNKNOWN if self._latest is None else _number(self._latest.kv_usage_ratio)


def _waiting(ledger: Ledger, lane: Lane) -> float:
    return ledger.lane(lane).waiting


def _running(ledger: Ledger, lane: Lane) -> float:
    return ledger.lane(lane).running


def _number(value: float | None) -> float:
    return _UNKNOWN if value is None else value
