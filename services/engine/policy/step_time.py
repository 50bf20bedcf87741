"""How long a step takes, learned from the steps themselves.

time = base + a · prompt tokens + b · decodes + c · thousands of tokens attended to, fitted by recursive least squares with
exponential forgetting (Haykin, Adaptive Filter Theory, ch. 10), coefficients bounded, outliers weighted down (Huber).
Nothing about particular hardware is in here: the prior is an argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Features are scaled to be of one size, which keeps the recursion well conditioned.
_SCALES = (1.0, 100.0, 10.0, 1.0)
_SIZE = len(_SCALES)
# Steps that count half as much as the newest after some 140 of their kind.
_FORGETTING = 0.995
# How little the prior is trusted: after a handful of steps the measurements decide.
_PRIOR_VARIANCE = 1.0
# Residuals over this many typical ones lose weight.
_HUBER_FACTOR = 3.0
_ERROR_WEIGHT = 0.05
# Forgetting makes the covariance of features that do not occur grow; beyond this it stops.
_MAX_VARIANCE = 100.0


class StepWork(NamedTuple):
    """What a step does: prompt tokens processed, sequences decoded, thousands of tokens attended to."""

    prefill_tokens: int
    decodes: int
    context_ktokens: float


@dataclass(frozen=True, kw_only=True)
class StepCoefficients:
    """Seconds: of a step by itself, for each prompt token, for each decode, for each thousand tokens attended to."""

    base_s: float
    prefill_token_s: float
    decode_s: float
    context_ktoken_s: float


@dataclass(frozen=True, kw_only=True)
class StepBounds:
    """Lowest and highest believable coefficients."""

    lowest: StepCoefficients
    highest: StepCoefficients


# Wide enough for a core of a laptop and for the largest accelerator.
DEFAULT_BOUNDS = StepBounds(
    lowest=StepCoefficients(base_s=1e-5, prefill_token_s=1e-7, decode_s=0.0, context_ktoken_s=0.0),
    highest=StepCoefficients(base_s=1.0, prefill_token_s=0.1, decode_s=0.5, context_ktoken_s=0.1),
)
# A start for the first steps, between the two: replaced by measurement within a few of them.
DEFAULT_PRIOR = StepCoefficients(base_s=0.02, prefill_token_s=0.001, decode_s=0.001, context_ktoken_s=0.0001)


class StepTimeModel:
    """The fitted model. Owned by one scheduler; every method is a few microseconds."""

    def __init__(self, *, prior: StepCoefficients = DEFAULT_PRIOR, bounds: StepBounds = DEFAULT_BOUNDS) -> None:
        self._low = _scaled(bounds.lowest)
        self._high = _scaled(bounds.highest)
        self._theta = _scaled(prior)
        spread = [max(value, 1e-6) ** 2 * _PRIOR_VARIANCE for value in self._theta]
        self._covariance = [[spread[i] if i == j else 0.0 for j in range(_SIZE)] for i in range(_SIZE)]
        self._noise = max(self._theta[0] * 0.1, 1e-6) ** 2
        self._residual_s: float | None = None
        self._error_ratio: float | None = None

    @property
    def coefficients(self) -> StepCoefficients:
        """The fit of now."""
        base, prefill, decode, context = (value / scale for value, scale in zip(self._theta, _SCALES, strict=True))
        return StepCoefficients(base_s=base, prefill_token_s=prefill, decode_s=decode, context_ktoken_s=context)

    @property
    def error_ratio(self) -> float | None:
        """Smoothed |predicted - measured| ÷ measured; None before the first step."""
        return self._error_ratio

    def predict_s(self, work: StepWork) -> float:
        """Return the seconds that a step of this work takes."""
        return sum(theta * x for theta, x in zip(self._theta, _features(work), strict=True))

    def prefill_tokens_within(self, target_s: float, *, decodes: int, context_ktokens: float) -> int:
        """Return the most prompt tokens that a step can take beside the rest and stay within `target_s`; 0 where none."""
        left_s = target_s - self.predict_s(StepWork(0, decodes, context_ktokens))
        return max(0, int(left_s / self.coefficients.prefill_token_s))

    def learn(self, work: StepWork, measured_s: float) -> None:
        """Take the measured time of a step. Times that are not positive are ignored."""
        if not 0 < measured_s < float("inf"):
            return
        x = _features(work)
        residual_s = measured_s - sum(theta * value for theta, value in zip(self._theta, x, strict=True))
        weight = self._weight(abs(residual_s))
        self._note_error(abs(residual_s), measured_s)
        self._update(x, residual_s, weight)

    def _weight(self, residual_s: float) -> float:
        if self._residual_s is None or residual_s == 0:
            return 1.0
        return min(1.0, _HUBER_FACTOR * self._residual_s / residual_s)

    def _note_error(self, residual_s: float, measured_s: float) -> None:
        ratio = residual_s / measured_s
        if self._residual_s is None or self._error_ratio is None:
            self._residual_s, self._error_ratio = residual_s, ratio
            return
        # An outlier moves the scale by no more than its weighted size.
        self._residual_s += _ERROR_WEIGHT * (min(residual_s, _HUBER_FACTOR * self._residual_s + 1e-6) - self._residual_s)
        self._error_ratio += _ERROR_WEIGHT * (ratio - self._error_ratio)

    def _update(self, x: Sequence[float], residual_s: float, weight: float) -> None:
        covariance = self._covariance
        px = [sum(row[j] * x[j] for j in range(_SIZE)) for row in covariance]
        denominator = self._noise * _FORGETTING / max(weight, 1e-3) + sum(x[i] * px[i] for i in range(_SIZE))
        gain = [value / denominator for value in px]
        for i in range(_SIZE):
            self._theta[i] = min(max(self._theta[i] + gain[i] * residual_s, self._low[i]), self._high[i])
            for j in range(_SIZE):
                covariance[i][j] = (covariance[i][j] - gain[i] * px[j]) / _FORGETTING
            covariance[i][i] = min(covariance[i][i], _MAX_VARIANCE)


def _features(work: StepWork) -> tuple[float, float, float, float]:
    return (1.0, work.prefill_tokens / _SCALES[1], work.decodes / _SCALES[2], work.context_ktokens / _SCALES[3])


def _scaled(of: StepCoefficients) -> list[float]:
    values = (of.base_s, of.prefill_token_s, of.decode_s, of.context_ktoken_s)
    return [value * scale for value, scale in zip(values, _SCALES, strict=True)]
