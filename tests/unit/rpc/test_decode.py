import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2
from hypothesis import given
from hypothesis import strategies as st
from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from libs.rpc.decode import INVALID_UTF8, MALFORMED, parse
from libs.rpc.fault import Fault, FaultError, FieldViolation

BAD = b"ab\xff"


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def _fault(message_type: type[Message], raw: bytes) -> Fault:
    with pytest.raises(FaultError) as caught:
        parse(message_type, raw)
    return caught.value.fault


MESSAGE_OK = _field(1, b"user") + _field(2, b"hi")
MESSAGE_BAD = _field(1, b"user") + _field(2, BAD)


def test_parse_of_good_bytes_returns_the_message() -> None:
    request = inference_pb2.GenerateRequest(prompt="grüezi")
    assert parse(inference_pb2.GenerateRequest, request.SerializeToString()) == request


@pytest.mark.parametrize(
    ("message_type", "raw", "path"),
    [
        pytest.param(inference_pb2.GenerateRequest, _field(3, BAD), "prompt", id="top-level"),
        pytest.param(inference_pb2.GenerateRequest, _field(8, _field(1, BAD)), "kv.cache_salt", id="nested"),
        pytest.param(
            inference_pb2.GenerateRequest, _field(7, _field(2, b"ok") + _field(2, BAD)), "stopping.stop[1]", id="repeated"
        ),
        pytest.param(
            inference_pb2.GenerateRequest,
            _field(5, _field(1, MESSAGE_OK) + _field(1, MESSAGE_BAD)),
            "chat.messages[1].content",
            id="repeated-nested",
        ),
        pytest.param(
            error_details_pb2.ErrorInfo, _field(3, _field(1, b"k") + _field(2, BAD)), "metadata[0].value", id="map-value"
        ),
        pytest.param(error_details_pb2.ErrorInfo, _field(3, _field(1, BAD)), "metadata[0].key", id="map-key"),
        pytest.param(
            inference_pb2.GenerateRequest, _field(4, _field(1, b"\xff\x01")) + _field(3, BAD), "prompt", id="behind-packed"
        ),
        pytest.param(
            inference_pb2.GenerateRequest, b"\x7b" + _field(3, BAD) + b"\x7c" + _field(3, BAD), "prompt", id="behind-group"
        ),
        pytest.param(inference_pb2.GenerateRequest, _field(15, BAD) + _field(3, BAD), "prompt", id="behind-unknown"),
        pytest.param(struct_pb2.Value, b"\x11" + b"\xff" * 8 + _field(3, BAD), "string_value", id="behind-fixed64"),
    ],
)
def test_parse_of_invalid_utf8_names_the_field(message_type: type[Message], raw: bytes, path: str) -> None:
    fault = _fault(message_type, raw)
    assert fault.reason == INVALID_UTF8
    assert fault.violations == (FieldViolation(path, "is not valid UTF-8 at byte 2"),)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x1a\x05ab", id="string-cut-short"),
        pytest.param(b"\x1a\x05\xc3", id="string-cut-inside-a-character"),
        pytest.param(b"\xff" * 11, id="endless-varint"),
        pytest.param(b"\x1e", id="unknown-wire-type"),
        pytest.param(b"\x7c", id="group-that-never-began"),
        pytest.param(b"\x22\x02\x0a\x05", id="nested-cut-short"),
        pytest.param(b"\x00", id="field-number-zero"),
    ],
)
def test_parse_of_a_broken_wire_format_names_the_message(raw: bytes) -> None:
    fault = _fault(inference_pb2.GenerateRequest, raw)
    assert fault.reason == MALFORMED
    assert [violation.field for violation in fault.violations] == ["twinlane.inference.v1.GenerateRequest"]


@given(st.binary(max_size=64))
def test_parse_of_any_bytes_gives_a_message_or_a_fault(raw: bytes) -> None:
    try:
        expected = inference_pb2.GenerateRequest.FromString(raw)
    except DecodeError:
        assert _fault(inference_pb2.GenerateRequest, raw).reason in {MALFORMED, INVALID_UTF8}
    else:
        assert parse(inference_pb2.GenerateRequest, raw) == expected


@given(ids=st.lists(st.integers(0, 2**32 - 1)), good=st.text(max_size=10))
def test_packed_numbers_are_never_taken_for_text(ids: list[int], good: str) -> None:
    request = inference_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(ids=ids), request_id=good)
    fault = _fault(inference_pb2.GenerateRequest, request.SerializeToString() + _field(2, BAD))
    assert [violation.field for violation in fault.violations] == ["model"]
