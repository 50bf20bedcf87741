"""Exponentially weighted moving average over irregular samples."""

import math


class Ewma:
    """Average whose weight on a sample halves each `half_life_s`. Holds nothing until the first sample.

    With gap g since the sample before, new = old + (1 - 2^(-g / half_life)) · (sample - old). Samples of one instant are
    weighted as if they were `min_gap_s` apart, so that a burst moves the average too.
    """

    def __init__(self, *, half_life_s: float, min_gap_s: float = 0.001) -> None:
        if half_life_s <= 0:
            raise ValueError(f"half_life_s: {half_life_s} must be above 0")
        self._decay_per_s = math.log(2) / half_life_s
        self._min_gap_s = min_gap_s
        self._value: float | None = None
        self._at_s = 0.0

    @property
    def value(self) -> float | None:
        """The average, or None before the first sample."""
        return self._value

    def add(self, sample: float, *, now_s: float) -> float:
        """Take a sample at `now_s` (not before the last one) and return the new average."""
        if self._value is None:
            self._value = sample
        else:
            gap_s = max(now_s - self._at_s, self._min_gap_s)
            self._value += -math.expm1(-self._decay_per_s * gap_s) * (sample - self._value)
        self._at_s = max(self._at_s, now_s)
        return self._value
