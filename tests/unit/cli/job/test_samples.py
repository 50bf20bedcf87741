"""Summaries of a job."""

import pytest

from cli.job.samples import Quantiles, Sample, quantiles, summarise
from libs.core.lanes import Lane


def _sample(total_ms: float, *, lane: Lane = Lane.REALTIME, error: str = "") -> Sample:
    first_token_ms = None if error else total_ms / 2
    return Sample(lane=lane, first_token_ms=first_token_ms, total_ms=total_ms, completion_tokens=5, error=error)


def test_summarise_counts_only_its_own_lane() -> None:
    summary = summarise([_sample(10), _sample(20, lane=Lane.BATCH)], Lane.REALTIME, elapsed_s=1.0)
    assert (summary.count, summary.tokens_per_s) == (1, 5.0)


def test_summarise_errors_are_counted_by_reason_and_left_out_of_quantiles() -> None:
    samples = [_sample(10), _sample(9000, error="NO_ENGINE"), _sample(9000, error="NO_ENGINE"), _sample(1, error="DEADLINE")]
    summary = summarise(samples, Lane.REALTIME, elapsed_s=1.0)
    assert summary.errors == {"NO_ENGINE": 2, "DEADLINE": 1}
    assert summary.error_count == 3
    assert summary.total == Quantiles(p50_ms=10, p95_ms=10, p99_ms=10)


def test_summarise_no_time_elapsed_gives_no_rate() -> None:
    assert summarise([], Lane.BATCH, elapsed_s=0.0).tokens_per_s == 0.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], None, id="no-value"),
        pytest.param([7.0], Quantiles(p50_ms=7, p95_ms=7, p99_ms=7), id="one-value"),
        pytest.param([float(n) for n in range(100, 0, -1)], Quantiles(p50_ms=50, p95_ms=95, p99_ms=99), id="hundred-values"),
    ],
)
def test_quantiles_are_nearest_rank(values: list[float], expected: Quantiles | None) -> None:
    assert quantiles(values) == expected
