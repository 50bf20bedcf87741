"""Bad requests through the whole mesh: each gets a reason and names the field, and nothing else is disturbed."""

import asyncio

import grpc
import pytest
from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from bench.mesh import Mesh, connect
from libs.rpc.fault import Fault
from tests.integration.faults.calls import complete, refusal

# Field 7 (stopping) with field 1 (max_new_tokens) = -1, as a careless client encodes it: ten bytes of varint.
_NEGATIVE_MAX_NEW_TOKENS = b"\x1a\x02hi" + b"\x3a\x0b\x08" + b"\xff" * 9 + b"\x01"
# Field 3 (prompt) with bytes that are not UTF-8.
_INVALID_UTF8 = b"\x1a\x02\xff\xfe"
_OVERSIZED_BYTES = 10 * 1024 * 1024


def _request(**fields: object) -> bytes:
    return inference_pb2.CompleteRequest(**fields).SerializeToString()  # type: ignore[arg-type]  # fields vary by case


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param(_request(prompt=""), "prompt", id="empty-prompt"),
        pytest.param(_request(prompt="hi", model="no-such-model"), "model", id="unknown-model"),
        pytest.param(
            _request(prompt="hi", stopping=generation_pb2.Stopping(max_new_tokens=0)),
            "stopping.max_new_tokens",
            id="zero-max-new-tokens",
        ),
        pytest.param(
            _request(prompt="hi", stopping=generation_pb2.Stopping(max_new_tokens=2_000_000_000)),
            "stopping.max_new_tokens",
            id="huge-max-new-tokens",
        ),
        pytest.param(_NEGATIVE_MAX_NEW_TOKENS, "stopping.max_new_tokens", id="negative-max-new-tokens"),
        pytest.param(_INVALID_UTF8, "prompt", id="invalid-utf8"),
        pytest.param(_request(prompt="word " * 20_000), "input", id="prompt-over-every-limit"),
        pytest.param(_request(prompt="x" * _OVERSIZED_BYTES), "request", id="oversized-message"),
    ],
)
def test_bad_request_is_refused_with_reason_and_field(mesh: Mesh, raw: bytes, field: str) -> None:
    async def scenario() -> tuple[Fault, str]:
        async with connect(mesh.router) as channel:
            return await refusal(channel, raw), (await complete(channel)).engine_id

    fault, next_engine = asyncio.run(scenario())
    assert fault.code is grpc.StatusCode.INVALID_ARGUMENT
    assert fault.reason not in ("", "UNKNOWN")
    assert [violation.field for violation in fault.violations] == [field]
    assert next_engine == "realtime-1"
