"""Tables of the mesh, from the answers of the admin services. Pure: message in, table out."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table
from twinlane.common.v1 import engine_pb2, lane_pb2, tuning_pb2
from twinlane.controller.v1 import admin_pb2
from twinlane.engine.v1 import telemetry_pb2
from twinlane.router.v1 import admin_pb2 as router_pb2

ABSENT = "-"


def new_table(title: str) -> Table:
    """Return an empty table that fits a terminal of 80 columns."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def engines_table(status: admin_pb2.GetStatusResponse) -> Table:
    """Return one row per engine: state, work per lane, step, speed, cache and tuning."""
    table = new_table("engines; waiting and running are realtime/batch/auto")
    table.add_column("engine", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name in ("waiting", "running", "step ms", "tok/s", "kv", "p99 ms", "tuning"):
        table.add_column(name, justify="right", no_wrap=True)
    for engine in status.engines:
        table.add_row(engine.descriptor.engine_id, state_word(engine.state), *_load_cells(engine.snapshot))
    return table


def _load_cells(snapshot: telemetry_pb2.EngineSnapshot) -> tuple[str, ...]:
    return (
        "/".join(str(lane.waiting) for lane in snapshot.lanes) or ABSENT,
        "/".join(str(lane.running) for lane in snapshot.lanes) or ABSENT,
        f"{snapshot.step_ms:.1f}" if snapshot.HasField("step_ms") else ABSENT,
        f"{snapshot.completion_tokens_per_s:.0f}" if snapshot.HasField("completion_tokens_per_s") else ABSENT,
        f"{snapshot.kv_usage_ratio:.0%}" if snapshot.HasField("kv_usage_ratio") else ABSENT,
        realtime_p99(snapshot),
        "/".join(tuning_cells(snapshot.tuning)),
    )


def realtime_p99(snapshot: telemetry_pb2.EngineSnapshot) -> str:
    """Return the realtime lane's P99 to the last token in milliseconds, or "-" without a sample."""
    for reading in snapshot.lanes:
        if reading.lane == lane_pb2.LANE_REALTIME and reading.HasField("total"):
            return f"{reading.total.p99_ms:.0f}"
    return ABSENT


def tuning_cells(tuning: tuning_pb2.Tuning) -> tuple[str, str]:
    """Return sequences and tokens per step."""
    return (
        str(tuning.max_active_sequences) if tuning.HasField("max_active_sequences") else ABSENT,
        str(tuning.max_batched_tokens) if tuning.HasField("max_batched_tokens") else ABSENT,
    )


def state_word(state: engine_pb2.EngineState.ValueType) -> str:
    """Return "serving" for ENGINE_STATE_SERVING, and so on."""
    return engine_pb2.EngineState.Name(state).removeprefix("ENGINE_STATE_").lower()


def lane_word(lane: lane_pb2.Lane.ValueType) -> str:
    """Return "realtime" for LANE_REALTIME, and so on."""
    return lane_pb2.Lane.Name(lane).removeprefix("LANE_").lower()


def lanes_table(status: router_pb2.GetStatusResponse) -> Table:
    """Return one row per lane of a router."""
    source = router_pb2.TableSource.Name(status.table_source).removeprefix("TABLE_SOURCE_").lower()
    table = new_table(f"router {status.router_id}, engine table: {source}")
    table.add_column("lane")
    for name in ("in flight", "answered", "failed"):
        table.add_column(name, justify="right")
    for lane in status.lanes:
        table.add_row(lane_word(lane.lane), str(lane.in_flight), str(lane.answered_total), str(lane.failed_total))
    return table


def decisions_table(decisions: Iterable[admin_pb2.Decision], *, title: str = "decisions, newest first") -> Table:
    """Return one row per decision: what, why, and with which result."""
    table = new_table(title)
    for name in ("time", "engine", "action", "sequences", "why", "result"):
        table.add_column(name, no_wrap=name != "why")
    for decision in decisions:
        table.add_row(
            decision.decided_at.ToDatetime().strftime("%H:%M:%S"),
            decision.engine_id,
            _word(admin_pb2.DecisionAction.Name(decision.action), "DECISION_ACTION_"),
            _sequences(decision),
            decision.explanation,
            _word(admin_pb2.ActuationResult.Name(decision.result), "ACTUATION_RESULT_"),
        )
    return table


def _sequences(decision: admin_pb2.Decision) -> str:
    before, after = tuning_cells(decision.before)[0], tuning_cells(decision.after)[0]
    return before if before == after or after == ABSENT else f"{before} → {after}"


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()
