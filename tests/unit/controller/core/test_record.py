"""Which decisions go into the journal."""

from typing import Any

import pytest

from services.controller.core.record import DecisionRecord, is_noteworthy
from services.controller.core.step import decide
from services.controller.domain import ActuationResult
from tests.unit.controller.samples import SETTINGS, inputs, reading

GROW = inputs()
STEADY = inputs(reading=reading(kv_usage_ratio=0.9))
PAUSED = inputs(paused=True)


def _record(given: Any, result: ActuationResult = ActuationResult.NONE, error: str = "") -> DecisionRecord:
    verdict = decide(given, SETTINGS)
    return DecisionRecord(
        decision_id="d", term=1, decided_at_s=0.0, decision=verdict.decision, result=result, error=error, inputs=given
    )


@pytest.mark.parametrize(
    ("record", "before", "expected"),
    [
        pytest.param(_record(STEADY), None, True, id="first"),
        pytest.param(_record(STEADY), _record(STEADY), False, id="hold for the same reason"),
        pytest.param(_record(PAUSED), _record(STEADY), True, id="hold for another reason"),
        pytest.param(_record(GROW), _record(GROW), True, id="every change"),
        pytest.param(_record(STEADY, ActuationResult.APPLIED), _record(STEADY), True, id="sent again and taken"),
        pytest.param(_record(STEADY, ActuationResult.FAILED, "away"), _record(STEADY), True, id="began to fail"),
        pytest.param(
            _record(STEADY, ActuationResult.FAILED, "gone"),
            _record(STEADY, ActuationResult.FAILED, "away"),
            False,
            id="fails on",
        ),
        pytest.param(_record(STEADY), _record(STEADY, ActuationResult.FAILED, "away"), True, id="ceased to fail"),
    ],
)
def test_is_noteworthy(record: DecisionRecord, before: DecisionRecord | None, expected: bool) -> None:
    assert is_noteworthy(record, before) == expected
