"""Readings, memories and settings to start from."""

from typing import Any

from services.controller.core.inputs import EngineInputs
from services.controller.core.memory import ControllerState, EngineMemory
from services.controller.core.readings import EngineReading, LatencyReading, Tick
from services.controller.core.settings import LawSettings, StepSettings
from services.controller.domain import EngineState, Limits, Override, Tuning

LIMITS = Limits(max_active_sequences=64, max_batched_tokens=2048)
SETTINGS = StepSettings(law=LawSettings(cooldown_s=10.0), slo_ms=100.0, stale_s=3.0, renew_after_s=10.0)


def reading(*, p99_ms: float | None = None, count: int = 100, limit: int = 16, **changes: Any) -> EngineReading:
    """A serving batch engine with a full batch, room in its cache, and fresh telemetry."""
    fields: dict[str, Any] = {
        "engine_id": "batch-1",
        "epoch": 1,
        "pool": "batch",
        "state": EngineState.SERVING,
        "limits": LIMITS,
        "age_s": 0.1,
        "tuning": Tuning(max_active_sequences=limit, max_batched_tokens=512),
        "running": limit,
        "waiting": 4,
        "realtime": None if p99_ms is None else LatencyReading(count=count, p99_ms=p99_ms),
        "kv_usage_ratio": 0.5,
        **changes,
    }
    return EngineReading(**fields)


def memory(**changes: Any) -> EngineMemory:
    """The memory of an engine that was never changed."""
    return EngineMemory(**{"epoch": 1, "growth_factor": 1.5, "seen_at_s": 0.0, **changes})


def override(*, expires_at_s: float = 2_000.0, **values: int) -> Override:
    """An override of batch-1, in force at the samples' wall time."""
    return Override(
        engine_id="batch-1", tuning=Tuning(**values), expires_at_s=expires_at_s, reason="incident", decision_id="dec-o"
    )


def inputs(**changes: Any) -> EngineInputs:
    """One engine at monotonic 100 s, wall 1,000 s."""
    fields: dict[str, Any] = {
        "now_s": 100.0,
        "wall_s": 1_000.0,
        "paused": False,
        "override": None,
        "reading": reading(),
        "memory": memory(),
        **changes,
    }
    return EngineInputs(**fields)


def tick(*readings: EngineReading, now_s: float = 100.0, **changes: Any) -> Tick:
    """A tick of these engines; wall time is 900 s ahead of monotonic time."""
    return Tick(**{"now_s": now_s, "wall_s": now_s + 900.0, "engines": readings, **changes})


NO_STATE = ControllerState()
