"""Sliding windows: exact quantiles of recent samples, and rates."""

import math
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class QuantileSummary:
    """Quantiles of one window, nearest rank: the p-quantile is the ceil(p · count)-th smallest sample."""

    count: int
    p50: float
    p95: float
    p99: float


class SlidingQuantiles:
    """Quantiles over the samples of the last `window_s` seconds, at most the newest `max_samples` of them.

    Memory is bounded by `max_samples`; a summary costs O(n log n) in the samples held.
    """

    def __init__(self, *, window_s: float, max_samples: int = 4096) -> None:
        if window_s <= 0:
            raise ValueError(f"window_s: {window_s} must be above 0")
        if max_samples < 1:
            raise ValueError(f"max_samples: {max_samples} must be at least 1")
        self._window_s = window_s
        self._samples: deque[tuple[float, float]] = deque(maxlen=max_samples)

    def add(self, value: float, *, now_s: float) -> None:
        """Take a sample."""
        self._samples.append((now_s, value))

    def clear(self) -> None:
        """Forget every sample."""
        self._samples.clear()

    def summary(self, *, now_s: float) -> QuantileSummary | None:
        """Return the quantiles at `now_s`, or None without a sample in the window."""
        self._expire(now_s)
        if not self._samples:
            return None
        ordered = sorted(value for _, value in self._samples)
        return QuantileSummary(
            count=len(ordered), p50=quantile(ordered, 0.50), p95=quantile(ordered, 0.95), p99=quantile(ordered, 0.99)
        )

    def _expire(self, now_s: float) -> None:
        oldest_s = now_s - self._window_s
        while self._samples and self._samples[0][0] < oldest_s:
            self._samples.popleft()


class SlidingSum:
    """Sum of amounts over the last `window_s` seconds, kept in `buckets` equal slices: exact to one slice, bounded memory."""

    def __init__(self, *, window_s: float, buckets: int = 20) -> None:
        if window_s <= 0:
            raise ValueError(f"window_s: {window_s} must be above 0")
        if buckets < 1:
            raise ValueError(f"buckets: {buckets} must be at least 1")
        self._slice_s = window_s / buckets
        self._window_s = window_s
        self._buckets = buckets
        self._slices: deque[tuple[int, float]] = deque()

    def add(self, amount: float, *, now_s: float) -> None:
        """Count `amount` at `now_s`."""
        index = math.floor(now_s / self._slice_s)
        if self._slices and self._slices[-1][0] == index:
            self._slices[-1] = (index, self._slices[-1][1] + amount)
        else:
            self._expire(now_s)
            self._slices.append((index, amount))

    def total(self, *, now_s: float) -> float:
        """Return the sum of the window that ends at `now_s`."""
        self._expire(now_s)
        return sum(amount for _, amount in self._slices)

    def per_second(self, *, now_s: float) -> float:
        """Return the mean rate over the window."""
        return self.total(now_s=now_s) / self._window_s

    def _expire(self, now_s: float) -> None:
        oldest = math.floor(now_s / self._slice_s) - self._buckets
        while self._slices and self._slices[0][0] <= oldest:
            self._slices.popleft()


def quantile(ordered: list[float], p: float) -> float:
    """Return the nearest-rank `p`-quantile (0 < p <= 1) of a sorted, non-empty list."""
    return ordered[max(0, math.ceil(p * len(ordered)) - 1)]
