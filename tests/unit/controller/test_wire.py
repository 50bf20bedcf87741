"""Between messages and types."""

import math

import pytest
from google.protobuf import duration_pb2
from twinlane.common.v1 import engine_pb2, lane_pb2, tuning_pb2
from twinlane.controller.v1 import admin_pb2
from twinlane.engine.v1 import telemetry_pb2

from services.controller.core.readings import LatencyReading
from services.controller.domain import ActuationResult, DecisionAction, DecisionReason, EngineState, Tuning
from services.controller.wire import read_engine, read_state, read_tuning, seconds, timestamp, write_tuning

DESCRIPTOR = engine_pb2.EngineDescriptor(
    engine_id="a", epoch=3, pool="batch", limits=engine_pb2.EngineLimits(max_active_sequences=8, max_batched_tokens=256)
)


@pytest.mark.parametrize(
    ("enum", "message_enum", "prefix"),
    [
        pytest.param(EngineState, engine_pb2.EngineState, "ENGINE_STATE_", id="EngineState"),
        pytest.param(DecisionReason, admin_pb2.DecisionReason, "DECISION_REASON_", id="DecisionReason"),
        pytest.param(DecisionAction, admin_pb2.DecisionAction, "DECISION_ACTION_", id="DecisionAction"),
        pytest.param(ActuationResult, admin_pb2.ActuationResult, "ACTUATION_RESULT_", id="ActuationResult"),
    ],
)
def test_enums_mirror_the_protos(enum: type[EngineState], message_enum: type[engine_pb2.EngineState], prefix: str) -> None:
    numbers = {name.removeprefix(prefix): number for name, number in message_enum.items() if number != 0}
    assert numbers == {member.name: int(member) for member in enum}


def test_read_engine_without_snapshot_knows_only_the_descriptor() -> None:
    reading = read_engine(DESCRIPTOR, EngineState.WARMING, None, None)
    assert (reading.engine_id, reading.epoch, reading.state, reading.age_s) == ("a", 3, EngineState.WARMING, None)
    assert (reading.tuning, reading.kv_usage_ratio, reading.judged) == (Tuning(), None, None)


def test_read_engine_sums_requests_and_keeps_absent_apart_from_zero() -> None:
    snapshot = telemetry_pb2.EngineSnapshot(
        kv_usage_ratio=0.0,
        tuning=tuning_pb2.Tuning(max_active_sequences=4),
        lanes=[
            telemetry_pb2.LaneSnapshot(
                lane=lane_pb2.LANE_REALTIME, waiting=1, running=2, total=telemetry_pb2.LatencySummary(count=7, p99_ms=9.5)
            ),
            telemetry_pb2.LaneSnapshot(lane=lane_pb2.LANE_BATCH, waiting=10, running=20),
        ],
    )
    reading = read_engine(DESCRIPTOR, EngineState.SERVING, snapshot, 0.5)
    assert (reading.waiting, reading.running, reading.kv_usage_ratio) == (11, 22, 0.0)
    assert reading.tuning == Tuning(max_active_sequences=4)
    assert (reading.realtime, reading.auto) == (LatencyReading(count=7, p99_ms=9.5), None)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_read_engine_number_that_is_none_is_absent(bad: float) -> None:
    snapshot = telemetry_pb2.EngineSnapshot(
        kv_usage_ratio=bad,
        lanes=[
            telemetry_pb2.LaneSnapshot(lane=lane_pb2.LANE_REALTIME, total=telemetry_pb2.LatencySummary(count=7, p99_ms=bad))
        ],
    )
    reading = read_engine(DESCRIPTOR, EngineState.SERVING, snapshot, 0.5)
    assert (reading.kv_usage_ratio, reading.judged) == (None, None)


@pytest.mark.parametrize("number", [0, 99])
def test_read_state_unknown_number_is_none(number: int) -> None:
    assert read_state(number) is None


@pytest.mark.parametrize("tuning", [Tuning(), Tuning(max_active_sequences=1), Tuning(max_batched_tokens=2)])
def test_tuning_written_and_read_is_the_same(tuning: Tuning) -> None:
    assert read_tuning(write_tuning(tuning)) == tuning


def test_timestamp_keeps_microseconds() -> None:
    assert timestamp(1_700_000_000.123456).ToMicroseconds() == 1_700_000_000_123_456


def test_seconds_of_a_negative_duration_is_negative() -> None:
    assert seconds(duration_pb2.Duration(seconds=-1, nanos=-500_000_000)) == -1.5
