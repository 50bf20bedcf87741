"""The engine's own types as messages."""

from google.protobuf.timestamp_pb2 import Timestamp
from twinlane.common.v1 import engine_pb2 as common_engine_pb2
from twinlane.common.v1 import generation_pb2, lane_pb2, tuning_pb2
from twinlane.engine.v1 import telemetry_pb2

from libs.limits.window import QuantileSummary
from services.engine.domain import Finish, TuningValues
from services.engine.serving.identity import Identity
from services.engine.serving.ledger import LaneReading
from services.engine.serving.telemetry import EngineReading

FINISH_REASONS = {
    Finish.STOP: generation_pb2.FINISH_REASON_STOP,
    Finish.LENGTH: generation_pb2.FINISH_REASON_LENGTH,
}


def descriptor_message(identity: Identity) -> common_engine_pb2.EngineDescriptor:
    """Return the engine's description."""
    limits = identity.limits
    return common_engine_pb2.EngineDescriptor(
        engine_id=identity.engine_id,
        epoch=identity.epoch,
        address=identity.address,
        pool=identity.pool,
        model=identity.model,
        backend=identity.backend,
        profile=identity.profile,
        partition=common_engine_pb2.Partition(
            kind=identity.partition.kind, devices=identity.partition.devices, kv_cache_bytes=limits.kv_cache_bytes
        ),
        limits=common_engine_pb2.EngineLimits(
            max_context_tokens=limits.max_context_tokens,
            max_active_sequences=limits.max_active_sequences,
            max_batched_tokens=limits.max_batched_tokens,
            block_size_tokens=limits.block_size_tokens,
            kv_blocks=limits.kv_blocks,
        ),
        version=identity.version,
    )


def tuning_message(values: TuningValues) -> tuning_pb2.Tuning:
    """Return tuning with every field present."""
    return tuning_pb2.Tuning(max_active_sequences=values.max_active_sequences, max_batched_tokens=values.max_batched_tokens)


def snapshot_message(reading: EngineReading) -> telemetry_pb2.EngineSnapshot:
    """Return a reading as telemetry sends it; what was not measured is absent."""
    backend = reading.backend
    taken_at = Timestamp()
    taken_at.FromNanoseconds(int(reading.taken_at_s * 1e9))
    return telemetry_pb2.EngineSnapshot(
        engine_id=reading.engine_id,
        epoch=reading.epoch,
        sequence=reading.sequence,
        taken_at=taken_at,
        state=common_engine_pb2.EngineState.ValueType(reading.state),
        lanes=[_lane_message(lane) for lane in reading.lanes],
        tuning=tuning_message(reading.tuning),
        steps_total=backend.steps_total,
        step_ms=None if backend.step_s is None else backend.step_s * 1000,
        busy_ratio=backend.busy_ratio,
        kv_usage_ratio=backend.kv_usage_ratio,
        prefix_query_tokens_total=backend.prefix_query_tokens_total,
        prefix_hit_tokens_total=backend.prefix_hit_tokens_total,
        preemptions_total=backend.preemptions_total,
        prompt_tokens_per_s=reading.prompt_tokens_per_s,
        completion_tokens_per_s=reading.completion_tokens_per_s,
    )


def _lane_message(reading: LaneReading) -> telemetry_pb2.LaneSnapshot:
    return telemetry_pb2.LaneSnapshot(
        lane=lane_pb2.Lane.ValueType(reading.lane),
        waiting=reading.waiting,
        running=reading.running,
        waiting_prompt_tokens=reading.waiting_prompt_tokens,
        prompt_tokens_total=reading.prompt_tokens_total,
        completion_tokens_total=reading.completion_tokens_total,
        finished_total=reading.finished_total,
        cancelled_total=reading.cancelled_total,
        failed_total=reading.failed_total,
        first_token=_latency_message(reading.first_token_s),
        total=_latency_message(reading.total_s),
    )


def _latency_message(summary: QuantileSummary | None) -> telemetry_pb2.LatencySummary | None:
    if summary is None:
        return None
    return telemetry_pb2.LatencySummary(
        count=summary.count, p50_ms=summary.p50 * 1000, p95_ms=summary.p95 * 1000, p99_ms=summary.p99 * 1000
    )
