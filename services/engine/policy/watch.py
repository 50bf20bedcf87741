"""When a telemetry reader gets its next snapshot."""

MIN_INTERVAL_S = 0.020
MAX_INTERVAL_S = 10.0
DEFAULT_INTERVAL_S = 0.100
HEARTBEAT_S = 1.0
# Timers of an event loop may fire this much early.
_EARLY_S = 1e-6


def clamp_interval(asked_s: float | None) -> float:
    """Return the least time between snapshots for one reader, in seconds."""
    return DEFAULT_INTERVAL_S if asked_s is None else min(max(asked_s, MIN_INTERVAL_S), MAX_INTERVAL_S)


def is_due(*, changed: bool, since_last_s: float, interval_s: float) -> bool:
    """Say whether a snapshot is sent now: a change after the interval, a heartbeat each second (not below the interval)."""
    wait_s = interval_s if changed else max(interval_s, HEARTBEAT_S)
    return since_last_s + _EARLY_S >= wait_s
