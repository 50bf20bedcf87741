"""Between protobuf messages and the controller's own types."""

import math

from google.protobuf import duration_pb2, timestamp_pb2
from twinlane.common.v1 import engine_pb2, lane_pb2, tuning_pb2
from twinlane.engine.v1 import telemetry_pb2

from services.controller.core.readings import EngineReading, LatencyReading
from services.controller.domain import EngineState, Limits, Tuning

_STATES = {int(state): state for state in EngineState}


def read_tuning(message: tuning_pb2.Tuning) -> Tuning:
    """Return the values that are present."""
    return Tuning(
        max_active_sequences=message.max_active_sequences if message.HasField("max_active_sequences") else None,
        max_batched_tokens=message.max_batched_tokens if message.HasField("max_batched_tokens") else None,
    )


def write_tuning(tuning: Tuning) -> tuning_pb2.Tuning:
    """Return the message; None is absent."""
    return tuning_pb2.Tuning(max_active_sequences=tuning.max_active_sequences, max_batched_tokens=tuning.max_batched_tokens)


def read_limits(message: engine_pb2.EngineLimits) -> Limits:
    """Return the limits that bound tuning."""
    return Limits(max_active_sequences=message.max_active_sequences, max_batched_tokens=message.max_batched_tokens)


def read_state(number: int) -> EngineState | None:
    """Return the state, or None for UNSPECIFIED and numbers unknown here."""
    return _STATES.get(number)


def write_state(state: EngineState) -> engine_pb2.EngineState.ValueType:
    """Return the state as messages take it."""
    return engine_pb2.EngineState.ValueType(int(state))


def read_engine(
    descriptor: engine_pb2.EngineDescriptor,
    state: EngineState,
    snapshot: telemetry_pb2.EngineSnapshot | None,
    age_s: float | None,
) -> EngineReading:
    """Return what the core sees of an engine. Fragmentation is absent: engines of this protocol do not report it."""
    limits = read_limits(descriptor.limits)
    if snapshot is None:
        return EngineReading(
            engine_id=descriptor.engine_id, epoch=descriptor.epoch, pool=descriptor.pool, state=state, limits=limits
        )
    return EngineReading(
        engine_id=descriptor.engine_id,
        epoch=descriptor.epoch,
        pool=descriptor.pool,
        state=state,
        limits=limits,
        age_s=age_s,
        tuning=read_tuning(snapshot.tuning),
        running=sum(lane.running for lane in snapshot.lanes),
        waiting=sum(lane.waiting for lane in snapshot.lanes),
        realtime=_latency(snapshot, lane_pb2.LANE_REALTIME),
        auto=_latency(snapshot, lane_pb2.LANE_AUTO),
        kv_usage_ratio=_finite(snapshot.kv_usage_ratio) if snapshot.HasField("kv_usage_ratio") else None,
    )


def duration(seconds: float) -> duration_pb2.Duration:
    """Return the duration, to the microsecond."""
    message = duration_pb2.Duration()
    message.FromMicroseconds(round(seconds * 1_000_000))
    return message


def seconds(message: duration_pb2.Duration) -> float:
    """Return the duration in seconds."""
    return message.seconds + message.nanos / 1e9


def timestamp(wall_s: float) -> timestamp_pb2.Timestamp:
    """Return the moment, to the microsecond."""
    message = timestamp_pb2.Timestamp()
    message.FromMicroseconds(round(wall_s * 1_000_000))
    return message


def _latency(snapshot: telemetry_pb2.EngineSnapshot, lane: lane_pb2.Lane.ValueType) -> LatencyReading | None:
    for entry in snapshot.lanes:
        if entry.lane == lane and entry.total.count > 0 and _finite(entry.total.p99_ms) is not None:
            return LatencyReading(count=entry.total.count, p99_ms=entry.total.p99_ms)
    return None


def _finite(number: float) -> float | None:
    """Return the number, or None where it is none: nothing may be decided or journaled on it."""
    return number if math.isfinite(number) else None
