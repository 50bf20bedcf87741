"""Gauges of an engine's present state, read when scraped."""

from libs.core.lanes import Lane
from libs.telemetry import names
from services.engine.serving.metrics import EngineMetrics
from services.engine.serving.telemetry import Sources

_UNKNOWN = float("nan")


def show_gauges(metrics: EngineMetrics, sources: Sources) -> None:
    """Add every gauge; they are read from the scraper's thread and change nothing. What is not measured is NaN."""
    desk, backend, ledger = sources.desk, sources.backend, sources.ledger

    def waiting(lane: Lane) -> float:
        return ledger.lane(lane).waiting

    def running(lane: Lane) -> float:
        return ledger.lane(lane).running

    metrics.show_by_lane(names.ENGINE_WAITING, "Requests without a first token", waiting)
    metrics.show_by_lane(names.ENGINE_RUNNING, "Requests that generate", running)
    metrics.show(names.ENGINE_STATE, "State by its number in twinlane.common.v1.EngineState", lambda: sources.life.state)
    metrics.show(names.ENGINE_STEP_SECONDS, "Smoothed time of a step", lambda: _number(backend.snapshot().step_s))
    metrics.show(
        names.ENGINE_KV_USAGE_RATIO, "Share of cache blocks in use", lambda: _number(backend.snapshot().kv_usage_ratio)
    )
    metrics.show(names.ENGINE_MAX_ACTIVE_SEQUENCES, "Tuning in force", lambda: desk.values.max_active_sequences)
    metrics.show(names.ENGINE_MAX_BATCHED_TOKENS, "Tuning in force", lambda: desk.values.max_batched_tokens)


def _number(value: float | None) -> float:
    return _UNKNOWN if value is None else value
