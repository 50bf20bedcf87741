"""What the job measures of each request, and what it makes of that. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from libs.core.lanes import Lane
from libs.limits.window import quantile


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One finished request as its caller saw it. `error` is the reason, empty where it was answered."""

    lane: Lane
    first_token_ms: float | None
    total_ms: float
    completion_tokens: int
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Nearest-rank quantiles in milliseconds."""

    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class LaneSummary:
    """One lane of a job. Quantiles are over the answered requests, None where there is none."""

    lane: Lane
    count: int
    errors: dict[str, int]
    first_token: Quantiles | None
    total: Quantiles | None
    tokens_per_s: float

    @property
    def error_count(self) -> int:
        """Requests that were not answered."""
        return sum(self.errors.values())


def summarise(samples: Sequence[Sample], lane: Lane, *, elapsed_s: float) -> LaneSummary:
    """Return a lane's summary; `elapsed_s` is the time from the lane's first request to its last answer."""
    own = [sample for sample in samples if sample.lane is lane]
    answered = [sample for sample in own if not sample.error]
    tokens = sum(sample.completion_tokens for sample in own)
    return LaneSummary(
        lane=lane,
        count=len(own),
        errors=dict(Counter(sample.error for sample in own if sample.error)),
        first_token=quantiles([sample.first_token_ms for sample in answered if sample.first_token_ms is not None]),
        total=quantiles([sample.total_ms for sample in answered]),
        tokens_per_s=tokens / elapsed_s if elapsed_s > 0 else 0.0,
    )


def quantiles(values_ms: Sequence[float]) -> Quantiles | None:
    """Return the quantiles, or None without a value."""
    if not values_ms:
        return None
    ordered = sorted(values_ms)
    return Quantiles(p50_ms=quantile(ordered, 0.50), p95_ms=quantile(ordered, 0.95), p99_ms=quantile(ordered, 0.99))
