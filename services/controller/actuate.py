"""Carrying out of effects: UpdateTuning calls to engines, all at once, each within a time limit."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import structlog
from google.protobuf import field_mask_pb2
from twinlane.engine.v1 import tuning_pb2, tuning_pb2_grpc

from libs.rpc.channel import open_channel
from libs.rpc.fault import Fault, read_fault
from libs.telemetry import names
from libs.telemetry.tracing import Tracing
from services.controller.core.decision import Actuation
from services.controller.domain import Tuning
from services.controller.wire import duration, read_tuning, write_tuning

_log = structlog.get_logger(__name__)

# An engine answers at its next step boundary; a prefill step of a large batch may take most of this.
CALL_TIMEOUT_S = 2.0
STALE_EPOCH = "STALE_EPOCH"
# What libs.rpc.fault reads where the transport failed and no engine answered.
UNKNOWN_REASON = "UNKNOWN"


@dataclass(frozen=True, kw_only=True)
class Order:
    """Tuning for one engine. `decision_id` names the decision behind it."""

    engine_id: str
    address: str
    tuning: Tuning
    decision_id: str


class Actuator:
    """Sends orders in the name of one term. Holds no connection between calls, since changes are rare."""

    def __init__(self, *, controller_epoch: int, lease_s: float, max_message_bytes: int, tracing: Tracing) -> None:
        self._controller_epoch = controller_epoch
        self._lease_s = lease_s
        self._max_message_bytes = max_message_bytes
        self._tracing = tracing

    async def carry_out(self, orders: Sequence[Order]) -> tuple[Actuation, ...]:
        """Send every order and return what became of each, in order; failures are results, not exceptions."""
        return tuple(await asyncio.gather(*(self._send(order) for order in orders)))

    async def _send(self, order: Order) -> Actuation:
        try:
            response = await self._call(order)
        except grpc.aio.AioRpcError as error:
            return _failed(order, read_fault(error))
        return Actuation(engine_id=order.engine_id, applied=read_tuning(response.applied))

    async def _call(self, order: Order) -> tuning_pb2.UpdateTuningResponse:
        request = tuning_pb2.UpdateTuningRequest(
            tuning=write_tuning(order.tuning),
            update_mask=_mask(order.tuning),
            controller_epoch=self._controller_epoch,
            decision_id=order.decision_id,
            lease=duration(self._lease_s),
        )
        with self._tracing.call(names.SPAN_CONTROLLER_ACTUATE, {}) as (span, metadata):
            span.set_attribute(names.ATTR_ENGINE, order.engine_id)
            async with open_channel(order.address, max_message_bytes=self._max_message_bytes) as channel:
                stub = tuning_pb2_grpc.TuningServiceStub(channel)
                return await stub.UpdateTuning(request, timeout=CALL_TIMEOUT_S, metadata=tuple(metadata.items()))


def _failed(order: Order, fault: Fault) -> Actuation:
    reason = "" if fault.reason == UNKNOWN_REASON else f" {fault.reason}"
    words = f"{fault.code.name}{reason}: {fault.message}"
    fenced = fault.code is grpc.StatusCode.ABORTED and fault.reason == STALE_EPOCH
    if fenced:
        _log.warning("another controller leads an engine", engine_id=order.engine_id, error=words)
    return Actuation(engine_id=order.engine_id, error=words, fenced=fenced)


def _mask(tuning: Tuning) -> field_mask_pb2.FieldMask:
    values = (("max_active_sequences", tuning.max_active_sequences), ("max_batched_tokens", tuning.max_batched_tokens))
    return field_mask_pb2.FieldMask(paths=[name for name, value in values if value is not None])
