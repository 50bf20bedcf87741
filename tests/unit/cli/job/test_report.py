"""Tables and JSON of a job."""

import re

from rich.console import Console, RenderableType
from twinlane.controller.v1 import admin_pb2

from cli.job.report import lanes_table, report, to_json
from cli.job.run import JobResult
from cli.job.samples import LaneSummary, Quantiles
from libs.core.lanes import Lane

_RESULT = JobResult(
    lanes=(
        LaneSummary(
            lane=Lane.REALTIME,
            count=10,
            errors={"NO_ENGINE": 2},
            first_token=Quantiles(p50_ms=11, p95_ms=12, p99_ms=13),
            total=Quantiles(p50_ms=21, p95_ms=22, p99_ms=23),
            tokens_per_s=7.5,
        ),
        LaneSummary(lane=Lane.BATCH, count=0, errors={}, first_token=None, total=None, tokens_per_s=0.0),
    ),
    elapsed_s=4.0,
)


def _text(renderable: RenderableType) -> str:
    console = Console(width=200, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def test_lanes_table_shows_errors_by_reason_and_quantiles() -> None:
    text = _text(lanes_table(_RESULT))
    (row,) = [line for line in text.splitlines() if "realtime" in line]
    assert re.split(r"\s{2,}", row.strip()) == (["realtime", "10", "2 NO_ENGINE", "11", "12", "13", "21", "22", "23", "7.5"])


def test_report_controller_away_says_so() -> None:
    assert "the controller is away" in _text(report(_RESULT, None, ()))


def test_report_decisions_are_counted_and_bounded() -> None:
    decisions = tuple(admin_pb2.Decision(engine_id="batch-1", explanation=f"number {n}") for n in range(30))
    text = _text(report(_RESULT, admin_pb2.GetStatusResponse(), decisions))
    assert "(12 of 30)" in text
    assert "number 11" in text
    assert "number 12" not in text


def test_to_json_holds_every_lane() -> None:
    value = to_json(_RESULT, 3)
    assert value["decisions"] == 3
    assert value["lanes"] == {
        "realtime": {
            "count": 10,
            "errors": 2,
            "error_reasons": {"NO_ENGINE": 2},
            "first_token": {"p50_ms": 11, "p95_ms": 12, "p99_ms": 13},
            "total": {"p50_ms": 21, "p95_ms": 22, "p99_ms": 23},
            "tokens_per_s": 7.5,
        },
        "batch": {
            "count": 0,
            "errors": 0,
            "error_reasons": {},
            "first_token": None,
            "total": None,
            "tokens_per_s": 0.0,
        },
    }
