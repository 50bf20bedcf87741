"""The controller's metrics."""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from libs.telemetry import names
from services.controller.core.readings import EngineReading
from services.controller.core.record import DecisionRecord
from services.controller.domain import ActuationResult
from services.controller.loop import TickReport


class ControllerMetrics:
    """Owns the metrics of one controller in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._engines = Gauge(names.CONTROLLER_ENGINES, "Registered engines.", (names.POOL,), registry=registry)
        self._decisions = Counter(
            names.CONTROLLER_DECISIONS, "Decisions, holds too.", (names.ACTION, names.REASON), registry=registry
        )
        self._failures = Counter(
            names.CONTROLLER_ACTUATION_FAILURES, "Tuning that an engine did not take.", (names.ENGINE,), registry=registry
        )
        self._tick = Histogram(
            names.CONTROLLER_TICK_SECONDS, "Time of one tick.", buckets=names.LATENCY_BUCKETS, registry=registry
        )
        self._age = Gauge(names.CONTROLLER_SNAPSHOT_AGE_SECONDS, "Age of the last reading.", (names.ENGINE,), registry=registry)
        self._routers = Gauge(names.CONTROLLER_ROUTERS, "Open WatchEngines streams.", registry=registry)
        self._paused = Gauge(names.CONTROLLER_PAUSED, "1 while an operator's pause holds.", registry=registry)
        self._fenced = Gauge(names.CONTROLLER_FENCED_ENGINES, "Engines that follow a newer controller.", registry=registry)
        self.journal_failures = Counter(names.CONTROLLER_JOURNAL_FAILURES, "Journal writes that failed.", registry=registry)
        self.journal_dropped = Counter(
            names.CONTROLLER_JOURNAL_DROPPED, "Journal writes dropped because too many waited.", registry=registry
        )

    def tick(self, report: TickReport) -> None:
        """Count one tick."""
        self._tick.observe(report.took_s)
        self._paused.set(report.paused)
        self._fenced.set(sum(memory.fenced for memory in report.state.engines.values()))
        for record in report.records:
            self._count(record)
        readings = [record.inputs.reading for record in report.records]
        self._show_engines(readings)
        self._show_ages(readings)

    def routers(self, count: int) -> None:
        """Show how many routers watch."""
        self._routers.set(count)

    def _count(self, record: DecisionRecord) -> None:
        self._decisions.labels(record.decision.action.name.lower(), record.decision.reason.name.lower()).inc()
        if record.result is ActuationResult.FAILED:
            self._failures.labels(record.decision.engine_id).inc()

    def _show_engines(self, readings: Sequence[EngineReading]) -> None:
        tally = Tally(reading.pool for reading in readings)
        _forget_others(self._engines, tally)
        for pool, count in tally.items():
            self._engines.labels(pool).set(count)

    def _show_ages(self, readings: Sequence[EngineReading]) -> None:
        ages = {reading.engine_id: reading.age_s for reading in readings if reading.age_s is not None}
        _forget_others(self._age, ages)
        for engine_id, age_s in ages.items():
            self._age.labels(engine_id).set(age_s)


def _forget_others(gauge: Gauge, kept: Iterable[str]) -> None:
    """Remove the children of a gauge with one label whose value is not in `kept`."""
    shown = {sample.labels[label] for metric in gauge.collect() for sample in metric.samples for label in sample.labels}
    for value in shown.difference(kept):
        gauge.remove(value)
