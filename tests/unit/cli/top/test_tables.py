"""Cells of the tables: what is absent is shown as absent and never as zero."""

from rich.console import Console, RenderableType
from twinlane.common.v1 import engine_pb2, lane_pb2, tuning_pb2
from twinlane.controller.v1 import admin_pb2
from twinlane.engine.v1 import telemetry_pb2

from cli.top.tables import ABSENT, engines_table, lane_word, realtime_p99, state_word, tuning_cells

_SNAPSHOT = telemetry_pb2.EngineSnapshot(
    lanes=[
        telemetry_pb2.LaneSnapshot(
            lane=lane_pb2.LANE_REALTIME, waiting=3, running=2, total=telemetry_pb2.LatencySummary(count=1, p99_ms=88.4)
        ),
        telemetry_pb2.LaneSnapshot(lane=lane_pb2.LANE_BATCH, waiting=0, running=1),
    ]
)


def _text(renderable: RenderableType) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def test_engines_table_fits_80_columns_with_every_value_whole() -> None:
    engine = admin_pb2.EngineStatus(
        descriptor=engine_pb2.EngineDescriptor(engine_id="realtime-1"),
        state=engine_pb2.ENGINE_STATE_SERVING,
        snapshot=_SNAPSHOT,
    )
    text = _text(engines_table(admin_pb2.GetStatusResponse(engines=[engine])))
    (row,) = [line.split() for line in text.splitlines() if "serving" in line]
    assert row == ["realtime-1", "serving", "3/0", "2/1", "-", "-", "-", "88", "-/-"]


def test_realtime_p99_is_rounded_to_milliseconds() -> None:
    assert realtime_p99(_SNAPSHOT) == "88"


def test_realtime_p99_without_a_sample_is_absent() -> None:
    assert realtime_p99(telemetry_pb2.EngineSnapshot()) == ABSENT


def test_tuning_cells_absent_field_is_absent() -> None:
    assert tuning_cells(tuning_pb2.Tuning(max_active_sequences=8)) == ("8", ABSENT)


def test_words_are_plain_names_of_enum_values() -> None:
    assert state_word(engine_pb2.ENGINE_STATE_SERVING) == "serving"
    assert lane_word(lane_pb2.LANE_BATCH) == "batch"
