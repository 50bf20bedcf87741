"""The router's own fields, written behind an engine's bytes.

Protobuf lets a later occurrence of a scalar field win and merges a later occurrence of a message field, so nothing of the
engine's answer needs to be parsed (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
"""

from enum import IntEnum

from twinlane.common.v1 import generation_pb2
from twinlane.engine.v1 import engine_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.lanes import Lane

# Some 50 kB of events.
_KEPT_DELTAS_MAX = 512


class EventTag(IntEnum):
    """First byte of a streamed answer: the tag of the event's field in GenerateResponse."""

    STARTED = 0x0A
    DELTA = 0x12
    FINISHED = 0x1A


def with_started_fields(raw: bytes, *, request_id: str, lane: Lane, queue_ms: float) -> bytes:
    """Return the Started event with the caller's request id, the lane and the router's time."""
    fields = inference_pb2.Started(
        request_id=request_id,
        lane=lane.value,  # type: ignore[arg-type]
        router_queue_ms=queue_ms,
    )
    return _extended(raw, fields.SerializeToString())


def with_finished_fields(raw: bytes, *, attempts: int, queue_ms: float, total_ms: float) -> bytes:
    """Return the Finished event with the router's times and the engines called."""
    timings = generation_pb2.Timings(router_queue_ms=queue_ms, router_total_ms=total_ms)
    return _extended(raw, inference_pb2.Finished(timings=timings, attempts=attempts).SerializeToString())


def with_complete_fields(raw: bytes, *, request_id: str, lane: Lane, attempts: int, queue_ms: float, total_ms: float) -> bytes:
    """Return the whole answer with all of these."""
    fields = inference_pb2.CompleteResponse(
        request_id=request_id,
        lane=lane.value,  # type: ignore[arg-type]
        attempts=attempts,
        timings=generation_pb2.Timings(router_queue_ms=queue_ms, router_total_ms=total_ms),
    )
    return raw + fields.SerializeToString()


class SentDeltas:
    """Delta events that were handed on, kept for the account of an answer that breaks off: they are parsed only then, and in
    long answers now and then, so that what is kept stays small."""

    __slots__ = ("_counted", "_kept")

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._counted = 0

    def add(self, raw: bytes) -> None:
        """An event was handed on."""
        self._kept.append(raw)
        if len(self._kept) == _KEPT_DELTAS_MAX:
            self.tokens()

    def tokens(self) -> int:
        """Return the tokens in all events so far."""
        self._counted += sum(len(engine_pb2.GenerateResponse.FromString(raw).delta.token_ids) for raw in self._kept)
        self._kept.clear()
        return self._counted


def _extended(raw: bytes, fields: bytes) -> bytes:
    """Put fields at the end of the one sub-message that an event consists of."""
    size, start = _read_varint(raw, 1)
    return raw[:1] + _varint(size + len(fields)) + raw[start:] + fields


def _read_varint(raw: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
