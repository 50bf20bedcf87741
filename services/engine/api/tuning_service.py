"""TuningService: orders of the controller."""

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from twinlane.common.v1 import engine_pb2 as common_engine_pb2
from twinlane.common.v1 import tuning_pb2 as common_tuning_pb2
from twinlane.engine.v1 import tuning_pb2, tuning_pb2_grpc

from libs.rpc.boundary import Context
from libs.rpc.fault import FaultError, FieldViolation, invalid_argument
from services.engine.api.wire import tuning_message
from services.engine.policy.tuning import MAX_ACTIVE_SEQUENCES, MAX_BATCHED_TOKENS, TuningUpdate
from services.engine.serving.errors import NotServingError
from services.engine.serving.ledger import Ledger
from services.engine.serving.life import Life
from services.engine.serving.tuning import TuningDesk, TuningOrder

MIN_LEASE_S = 1.0
MAX_LEASE_S = 86_400.0
INVALID = "INVALID_REQUEST"
_FIELDS = (MAX_ACTIVE_SEQUENCES, MAX_BATCHED_TOKENS)


@dataclass(frozen=True, kw_only=True)
class TuningParts:
    """What the service works with."""

    desk: TuningDesk
    life: Life
    ledger: Ledger


class TuningService(tuning_pb2_grpc.TuningServiceServicer):
    """Checks orders and hands them on."""

    def __init__(self, parts: TuningParts) -> None:
        self._parts = parts

    async def UpdateTuning(self, request: tuning_pb2.UpdateTuningRequest, _context: Context) -> tuning_pb2.UpdateTuningResponse:
        """Apply an order at the next step boundary."""
        violations = [*_mask_faults(request), *_order_faults(request)]
        if violations:
            raise FaultError(invalid_argument(INVALID, *violations))
        facts = self._parts.life.facts
        if facts.lost or not facts.loaded:
            raise NotServingError(self._parts.life.state, lost=facts.lost)
        done = await self._parts.desk.obey(_order(request))
        return tuning_pb2.UpdateTuningResponse(applied=tuning_message(done.values), clamped_fields=done.clamped_fields)

    async def GetTuning(self, _request: tuning_pb2.GetTuningRequest, _context: Context) -> tuning_pb2.GetTuningResponse:
        """Read what is in force."""
        standing = self._parts.desk.standing
        response = tuning_pb2.GetTuningResponse(
            tuning=tuning_message(standing.values),
            configured=tuning_message(standing.configured),
            controller_epoch=standing.controller_epoch,
        )
        if standing.lease_remaining_s is not None:
            response.lease_remaining.FromMilliseconds(round(standing.lease_remaining_s * 1000))
        return response

    async def Drain(self, request: tuning_pb2.DrainRequest, _context: Context) -> tuning_pb2.DrainResponse:
        """Refuse new requests from now on."""
        state = self._parts.life.learn(reason=f"drain: {_reason(request.reason)}", draining=True)
        return tuning_pb2.DrainResponse(
            state=common_engine_pb2.EngineState.ValueType(state), remaining_requests=self._parts.ledger.in_flight
        )

    async def Undrain(self, request: tuning_pb2.UndrainRequest, _context: Context) -> tuning_pb2.UndrainResponse:
        """Take requests again."""
        state = self._parts.life.learn(reason=f"undrain: {_reason(request.reason)}", draining=False)
        return tuning_pb2.UndrainResponse(state=common_engine_pb2.EngineState.ValueType(state))


def _mask_faults(request: tuning_pb2.UpdateTuningRequest) -> Iterator[FieldViolation]:
    if not request.update_mask.paths:
        yield FieldViolation("update_mask", f"is required; it names fields of tuning: {', '.join(_FIELDS)}")
    present = {field.name for field, _ in request.tuning.ListFields()}
    for path in request.update_mask.paths:
        if path not in _FIELDS:
            yield FieldViolation("update_mask", f"{path!r} is not a field of tuning; these are: {', '.join(_FIELDS)}")
        elif path not in present:
            yield FieldViolation(f"tuning.{path}", "is named by update_mask and absent")


def _order_faults(request: tuning_pb2.UpdateTuningRequest) -> Iterator[FieldViolation]:
    if request.controller_epoch == 0:
        yield FieldViolation("controller_epoch", "is required and starts at 1")
    if not MIN_LEASE_S <= _seconds(request.lease) <= MAX_LEASE_S:
        yield FieldViolation("lease", f"{_seconds(request.lease):g} s is not between {MIN_LEASE_S:g} s and {MAX_LEASE_S:g} s")


def _order(request: tuning_pb2.UpdateTuningRequest) -> TuningOrder:
    return TuningOrder(
        update=_update(request.tuning, frozenset(request.update_mask.paths)),
        controller_epoch=request.controller_epoch,
        decision_id=request.decision_id,
        lease_s=_seconds(request.lease),
    )


def _update(tuning: common_tuning_pb2.Tuning, named: frozenset[str]) -> TuningUpdate:
    return TuningUpdate(
        max_active_sequences=tuning.max_active_sequences if MAX_ACTIVE_SEQUENCES in named else None,
        max_batched_tokens=tuning.max_batched_tokens if MAX_BATCHED_TOKENS in named else None,
    )


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _reason(reason: str) -> str:
    if not reason.strip():
        raise FaultError(invalid_argument(INVALID, FieldViolation("reason", "is required")))
    return reason
