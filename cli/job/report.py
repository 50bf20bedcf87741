"""Tables and JSON of a job's result. Pure: values in, tables out."""

from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from twinlane.controller.v1 import admin_pb2

from cli.job.run import JobResult
from cli.job.samples import LaneSummary, Quantiles
from cli.top.tables import ABSENT, decisions_table, engines_table, new_table

_DECISIONS_SHOWN = 12


def lanes_table(result: JobResult) -> Table:
    """Return one row per lane, latencies in milliseconds as the caller saw them."""
    table = new_table(f"lanes, {result.elapsed_s:.1f} s, milliseconds at the caller")
    table.add_column("lane", no_wrap=True)
    for name in ("count", "errors", "first p50", "p95", "p99", "total p50", "p95", "p99", "tok/s"):
        table.add_column(name, justify="right")
    for lane in result.lanes:
        table.add_row(
            lane.lane.name.lower(),
            str(lane.count),
            _errors(lane),
            *_cells(lane.first_token),
            *_cells(lane.total),
            f"{lane.tokens_per_s:.1f}",
        )
    return table


def _errors(lane: LaneSummary) -> str:
    kinds = ", ".join(f"{count} {reason}" for reason, count in sorted(lane.errors.items()))
    return kinds or "0"


def _cells(values: Quantiles | None) -> tuple[str, ...]:
    if values is None:
        return (ABSENT, ABSENT, ABSENT)
    return tuple(f"{value:.0f}" for value in (values.p50_ms, values.p95_ms, values.p99_ms))


def report(
    result: JobResult, status: admin_pb2.GetStatusResponse | None, decisions: tuple[admin_pb2.Decision, ...]
) -> RenderableType:
    """Return lanes, engines with their tuning, and the newest of the decisions made meanwhile."""
    parts: list[RenderableType] = [lanes_table(result)]
    if status is None:
        parts.append("the controller is away: no engine table, no decisions")
    else:
        parts.append(engines_table(status))
        title = f"decisions of the controller, newest first ({min(len(decisions), _DECISIONS_SHOWN)} of {len(decisions)})"
        parts.append(decisions_table(decisions[:_DECISIONS_SHOWN], title=title))
    return Group(*parts)


def to_json(result: JobResult, decisions: int) -> dict[str, object]:
    """Return the result as plain values: per lane count, errors, quantiles and tokens per second."""
    return {
        "elapsed_s": round(result.elapsed_s, 3),
        "lanes": {lane.lane.name.lower(): _lane_json(lane) for lane in result.lanes},
        "decisions": decisions,
    }


def _lane_json(lane: LaneSummary) -> dict[str, object]:
    return {
        "count": lane.count,
        "errors": lane.error_count,
        "error_reasons": lane.errors,
        "first_token": None if lane.first_token is None else asdict(lane.first_token),
        "total": None if lane.total is None else asdict(lane.total),
        "tokens_per_s": round(lane.tokens_per_s, 2),
    }
