"""Parsing of request bytes with errors that name the field.

protobuf says only that a message cannot be parsed. Callers need to know where, so on failure the bytes are walked
against the descriptor; wire format: https://protobuf.dev/programming-guides/encoding/
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from libs.rpc.fault import FaultError, FieldViolation, invalid_argument

MALFORMED = "MALFORMED_MESSAGE"
INVALID_UTF8 = "INVALID_UTF8"

_WIRE_VARINT, _WIRE_BYTES = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}
_GROUP_DEPTH_CHANGE = {3: 1, 4: -1}
_MAX_VARINT_BYTES = 10

MessageT = TypeVar("MessageT", bound=Message)


def parse(message_type: type[MessageT], raw: bytes) -> MessageT:
    """Return the parsed message. Raises FaultError INVALID_ARGUMENT that names the first bad field."""
    try:
        return message_type.FromString(raw)
    except DecodeError:
        violation = _first_violation(message_type.DESCRIPTOR, memoryview(raw), "")
        if violation is None:
            violation = FieldViolation(message_type.DESCRIPTOR.full_name, "cannot be parsed")
            raise FaultError(invalid_argument(MALFORMED, violation)) from None
        raise FaultError(invalid_argument(INVALID_UTF8, violation)) from None


def _first_violation(descriptor: Any, raw: memoryview, path: str) -> FieldViolation | None:
    """Find the first string field whose bytes are not UTF-8, depth first; None where the wire format itself is broken.

    Elements of a repeated field are counted from 0: `chat.messages[1].content`.
    """
    seen: Counter[int] = Counter()
    for number, value in _length_delimited(raw):
        field = descriptor.fields_by_number.get(number)
        if field is None:
            continue
        name = f"{path}{field.name}[{seen[number]}]" if field.is_repeated else f"{path}{field.name}"
        seen[number] += 1
        violation = _check_bytes(field, value, name)
        if violation is not None:
            return violation
    return None


def _check_bytes(field: Any, value: memoryview, name: str) -> FieldViolation | None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _first_violation(field.message_type, value, f"{name}.")
    if field.type == FieldDescriptor.TYPE_STRING:
        try:
            bytes(value).decode("utf-8")
        except UnicodeDecodeError as error:
            return FieldViolation(name, f"is not valid UTF-8 at byte {error.start}")
    return None


def _length_delimited(raw: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield field number and bytes of each length-delimited field, up to the end or to where the wire format is broken.

    What lies in groups is left out: proto3 has none, so they belong to unknown fields.
    """
    offset, group_depth = 0, 0
    while offset < len(raw):
        tag, offset = _varint(raw, offset)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _WIRE_BYTES:
            size, offset = _varint(raw, offset)
            if size > len(raw) - offset:
                return
            if group_depth == 0:
                yield number, raw[offset : offset + size]
            offset += size
        elif wire_type in _FIXED_BYTES:
            offset += _FIXED_BYTES[wire_type]
        elif wire_type == _WIRE_VARINT:
            _, offset = _varint(raw, offset)
        elif wire_type in _GROUP_DEPTH_CHANGE:
            group_depth += _GROUP_DEPTH_CHANGE[wire_type]
        else:
            return


def _varint(raw: memoryview, offset: int) -> tuple[int, int]:
    """Return the number at `offset` and the offset behind it; the end of the bytes where it is cut short."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if offset + index >= len(raw):
            return value, len(raw)
        byte = raw[offset + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, offset + index + 1
    return value, len(raw)
