"""Time of a step as a function of what it processes, learnt from the steps that were made.

    seconds = base + prefill · p + decode · d + context · c + attention · a

p: prompt tokens, d: decoding sequences, c: tokens of their contexts, a: prompt token pairs attended (a chunk of n tokens after
k computed ones attends n · (k + n / 2)). The coefficients follow by recursive least squares with forgetting: Ljung, System
Identification (1999), 11.2. Residuals far outside the usual ones count less (Huber), so that one stalled step teaches little.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

# One step in fifty is forgotten by a third after this many more: fast enough for a clock change, slow enough for noise.
_FORGETTING = 0.995
# A residual above this many times the usual one is gated (Huber's k is 1.345 standard deviations; ours is a mean deviation).
_GATE = 3.0
# Weight of the newest sample in the smoothed deviations.
_SMOOTHING = 0.05
# Deviations below this share of the prediction are noise and gate nothing.
_NOISE_RATIO = 0.05
# So many steps, each off by more than this share and all to one side, are no chance (1 in 128 for a fair coin).
_ONE_SIDED_STEPS = 8
_FAR_RATIO = 0.15
# The prior is trusted as much as this many standard deviations of its own size.
_PRIOR_SPREAD = 1.0
# Features are divided by these so that the five are of one size in usual steps.
_SCALES = (1.0, 256.0, 16.0, 16_384.0, 262_144.0)
_SIZE = len(_SCALES)


class StepWork(NamedTuple):
    """What one step processes; every count at least 0."""

    prefill_tokens: int = 0
    decodes: int = 0
    # Sum over the decoding sequences.
    context_tokens: int = 0
    # Prompt token pairs attended.
    attended_pairs: int = 0


@dataclass(frozen=True, kw_only=True)
class StepTimeCoefficients:
    """Seconds: of any step, of each prompt token, decoding sequence, token of their contexts, and pair attended; at least 0."""

    base_s: float
    prefill_token_s: float
    decode_s: float
    context_token_s: float
    attended_pair_s: float


def chunk_pairs(*, tokens: int, computed_tokens: int) -> int:
    """Return the token pairs attended by a prompt chunk of `tokens` that follows `computed_tokens`."""
    return tokens * computed_tokens + tokens * tokens // 2


class StepTimeModel:
    """Learns and predicts; pure arithmetic, some 30 µs an observation.

    Coefficients stay between 0 and `caps`; they start at `prior`. `relative_error` is a moving average of
    |measured - predicted| / measured, each prediction made before its measurement was learnt.
    """

    def __init__(self, *, prior: StepTimeCoefficients, caps: StepTimeCoefficients) -> None:
        self._prior = _scaled(prior)
        self._theta = self._prior
        self._caps = _scaled(caps)
        self._limits = [
            (_PRIOR_SPREAD * max(value, cap * 1e-3)) ** 2 for value, cap in zip(self._theta, self._caps, strict=True)
        ]
        self._spread = self._unsure()
        # Variance of a measurement: a tenth of the smallest whole step. Small against a wrong prior, which is soon unlearnt.
        self._noise = (0.1 * max(self._theta[0], 1e-4)) ** 2
        self._deviation_s: float | None = None
        self._relative_error: float | None = None
        self._observations = 0
        self._one_sided = 0

    @property
    def coefficients(self) -> StepTimeCoefficients:
        """What is believed now."""
        base, prefill, decode, context, attention = (value / scale for value, scale in zip(self._theta, _SCALES, strict=True))
        return StepTimeCoefficients(
            base_s=base, prefill_token_s=prefill, decode_s=decode, context_token_s=context, attended_pair_s=attention
        )

    @property
    def relative_error(self) -> float | None:
        """Smoothed relative error of predictions; None before the first step."""
        return self._relative_error

    @property
    def observations(self) -> int:
        """Steps learnt from."""
        return self._observations

    def predict_s(self, work: StepWork) -> float:
        """Return the seconds that a step with this work takes."""
        return _dot(self._theta, _features(work))

    def observe(self, work: StepWork, seconds: float) -> float:
        """Learn from one step, and return what had been predicted for it. Raises ValueError for a duration of 0 or less."""
        if not seconds > 0:
            raise ValueError(f"seconds: {seconds} must be above 0")
        features = _features(work)
        predicted_s = _dot(self._theta, features)
        residual_s = seconds - predicted_s
        gated_s = self._gated(residual_s, predicted_s)
        self._learn(features, gated_s)
        self._note_error(abs(gated_s), abs(residual_s) / seconds)
        self._note_side(residual_s, max(seconds, predicted_s))
        return predicted_s

    def most_prefill_tokens(self, *, target_s: float, beside: StepWork, computed_tokens: int) -> int:
        """Return how many prompt tokens, following `computed_tokens` of the same prompt, fit into a step of `target_s` beside
        the other work; 0 where none fits. Without a cost per token: any number, given as 2^31."""
        room_s = target_s - self.predict_s(beside)
        if room_s <= 0:
            return 0
        pair_s = self._theta[4] / _SCALES[4]
        linear_s = self._theta[1] / _SCALES[1] + pair_s * computed_tokens
        quadratic_s = pair_s / 2
        # Root of quadratic · n² + linear · n = room, in the form that is exact when quadratic is 0.
        denominator = linear_s + math.sqrt(linear_s * linear_s + 4 * quadratic_s * room_s)
        return min(int(2 * room_s / denominator), 2**31) if denominator > 0 else 2**31

    def _gated(self, residual_s: float, predicted_s: float) -> float:
        """Cut a residual down to the gate. The first step, often a cold and slow one, is held against its prediction: a machine
        many times slower than the prior is learnt in a few steps, and one stall is not mistaken for it."""
        usual_s = predicted_s if self._deviation_s is None else self._deviation_s
        gate_s = _GATE * max(usual_s, _NOISE_RATIO * predicted_s)
        return math.copysign(min(abs(residual_s), gate_s), residual_s)

    def _note_error(self, deviation_s: float, error: float) -> None:
        before_s, before = self._deviation_s, self._relative_error
        self._deviation_s = deviation_s if before_s is None else before_s + _SMOOTHING * (deviation_s - before_s)
        self._relative_error = error if before is None else before + _SMOOTHING * (error - before)
        self._observations += 1

    def _note_side(self, residual_s: float, scale_s: float) -> None:
        """Where step after step is far off to the same side, what was learnt holds no longer, or never did: begin anew."""
        if abs(residual_s) <= _FAR_RATIO * scale_s:
            self._one_sided = 0
            return
        side = 1 if residual_s > 0 else -1
        self._one_sided = self._one_sided + side if self._one_sided * side > 0 else side
        if abs(self._one_sided) >= _ONE_SIDED_STEPS:
            self._theta, self._spread, self._deviation_s, self._one_sided = self._prior, self._unsure(), None, 0

    def _unsure(self) -> list[list[float]]:
        return [[limit if row == column else 0.0 for column in range(_SIZE)] for row, limit in enumerate(self._limits)]

    def _learn(self, features: list[float], residual_s: float) -> None:
        spread = self._spread
        toward = [_dot(row, features) for row in spread]
        total = self._noise + _dot(toward, features)
        self._theta = [
            min(max(value + step / total * residual_s, 0.0), cap)
            for value, step, cap in zip(self._theta, toward, self._caps, strict=True)
        ]
        for row, step in zip(spread, toward, strict=True):
            share = step / total
            for column in range(_SIZE):
                row[column] -= share * toward[column]
        self._forget()

    def _forget(self) -> None:
        """Let older steps count less, but let no coefficient become less certain than its prior was: what the steps of now do
        not show (a steady state shows one combination only) must not drift."""
        spread = self._spread
        roots = [
            math.sqrt(min(1.0 / _FORGETTING, limit / max(spread[index][index], 1e-30)))
            for index, limit in enumerate(self._limits)
        ]
        for row, row_root in zip(spread, roots, strict=True):
            for column, root in enumerate(roots):
                row[column] *= row_root * root


def _scaled(coefficients: StepTimeCoefficients) -> list[float]:
    return [
        coefficients.base_s * _SCALES[0],
        coefficients.prefill_token_s * _SCALES[1],
        coefficients.decode_s * _SCALES[2],
        coefficients.context_token_s * _SCALES[3],
        coefficients.attended_pair_s * _SCALES[4],
    ]


def _features(work: StepWork) -> list[float]:
    return [
        1.0,
        work.prefill_tokens / _SCALES[1],
        work.decodes / _SCALES[2],
        work.context_tokens / _SCALES[3],
        work.attended_pairs / _SCALES[4],
    ]


def _dot(left: list[float], right: list[float]) -> float:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2] + left[3] * right[3] + left[4] * right[4]
