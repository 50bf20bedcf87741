"""Engine answers reach the caller byte for byte, so their protos must agree (docs/decisions/0004)."""

from typing import Any

import pytest
from google.protobuf.message import Message
from twinlane.engine.v1 import engine_pb2
from twinlane.inference.v1 import inference_pb2

PAIRS: list[tuple[type[Message], type[Message]]] = [
    (engine_pb2.GenerateResponse, inference_pb2.GenerateResponse),
    (engine_pb2.CompleteResponse, inference_pb2.CompleteResponse),
]


def _layout(descriptor: Any) -> dict[int, Any]:
    """Field number to all that decides how the field's bytes are read; messages of the mesh by their own layout."""
    return {
        field.number: (
            field.name,
            field.type,
            field.is_repeated,
            None if field.containing_oneof is None else field.containing_oneof.name,
            None if field.message_type is None else _layout(field.message_type),
        )
        for field in descriptor.fields
    }


def _unlike(engine: dict[int, Any], inference: dict[int, Any]) -> list[int]:
    return [number for number, layout in engine.items() if not _agrees(layout, inference.get(number))]


def _agrees(engine: Any, inference: Any) -> bool:
    if inference is None or engine[:4] != inference[:4]:
        return False
    return engine[4] is None or not _unlike(engine[4], inference[4])


@pytest.mark.parametrize(("engine", "inference"), PAIRS)
def test_every_field_of_an_engine_answer_is_one_of_the_callers(engine: type[Message], inference: type[Message]) -> None:
    assert _layout(engine.DESCRIPTOR)
    assert _unlike(_layout(engine.DESCRIPTOR), _layout(inference.DESCRIPTOR)) == []


def test_comparison_of_unlike_messages_finds_the_difference() -> None:
    engine, inference = _layout(engine_pb2.GenerateResponse.DESCRIPTOR), _layout(inference_pb2.CompleteResponse.DESCRIPTOR)
    assert _unlike(engine, inference) == [1, 2, 3]
