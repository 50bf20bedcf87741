"""Additive increase, multiplicative decrease (Chiu and Jain 1989): the control law of a concurrency limit."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AimdLaw:
    """Steps a limit between `minimum` and `maximum`.

    `increase` is added after a good sample; the limit is multiplied by `decrease_ratio` (above 0, below 1) after a bad one.
    """

    minimum: float
    maximum: float
    increase: float = 1.0
    decrease_ratio: float = 0.9

    def __post_init__(self) -> None:
        if not (0 < self.minimum <= self.maximum < math.inf):
            raise ValueError(
                f"minimum: {self.minimum} must be above 0 and at most maximum {self.maximum}, which must be finite"
            )
        if not (0 < self.increase < math.inf):
            raise ValueError(f"increase: {self.increase} must be above 0 and finite")
        if not (0 < self.decrease_ratio < 1):
            raise ValueError(f"decrease_ratio: {self.decrease_ratio} must be above 0 and below 1")

    def step(self, limit: float, *, overloaded: bool, limiting: bool) -> float:
        """Return the next limit.

        `overloaded`: the sample shows too much load, and wins. `limiting`: the limit held work back during the sample; where
        it did not, a good sample says nothing about more load, and the limit stays.
        """
        if overloaded:
            return self._bounded(limit * self.decrease_ratio)
        return self._bounded(limit + self.increase if limiting else limit)

    def _bounded(self, limit: float) -> float:
        return min(self.maximum, max(self.minimum, limit))
