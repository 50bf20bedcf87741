"""Messages of ControllerAdminService, made from the controller's own types."""

from twinlane.controller.v1 import admin_pb2

from services.controller.core.record import DecisionRecord
from services.controller.domain import Override
from services.controller.loop import ControlLoop
from services.controller.registry import Member
from services.controller.table import EngineTable
from services.controller.wire import duration, timestamp, write_state, write_tuning


def decision_message(record: DecisionRecord) -> admin_pb2.Decision:
    """Return a decision as operators see it."""
    decision = record.decision
    return admin_pb2.Decision(
        decision_id=record.decision_id,
        decided_at=timestamp(record.decided_at_s),
        engine_id=decision.engine_id,
        action=admin_pb2.DecisionAction.ValueType(int(decision.action)),
        reason=admin_pb2.DecisionReason.ValueType(int(decision.reason)),
        explanation=decision.explanation,
        before=write_tuning(decision.before),
        after=write_tuning(decision.after),
        p99_ms=decision.p99_ms,
        slo_ms=decision.slo_ms,
        growth_factor=decision.growth_factor,
        result=admin_pb2.ActuationResult.ValueType(int(record.result)),
        error=record.error,
    )


def override_message(override: Override) -> admin_pb2.Override:
    """Return an override as operators see it."""
    return admin_pb2.Override(
        engine_id=override.engine_id,
        tuning=write_tuning(override.tuning),
        expire_time=timestamp(override.expires_at_s),
        reason=override.reason,
    )


def engine_message(
    member: Member, *, table: EngineTable, loop: ControlLoop, override: Override | None
) -> admin_pb2.EngineStatus:
    """Return everything known of one engine."""
    status = admin_pb2.EngineStatus(descriptor=member.descriptor, state=write_state(member.state))
    received, age_s = table.received(member)
    if received is not None and age_s is not None:
        status.snapshot.CopyFrom(received.snapshot)
        status.snapshot_age.CopyFrom(duration(age_s))
    if override is not None:
        status.override.CopyFrom(override_message(override))
    record = loop.latest(member.descriptor.engine_id)
    if record is not None:
        status.last_decision.CopyFrom(decision_message(record))
    return status
