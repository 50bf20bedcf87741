"""The batch law on active sequences: pure arithmetic, one proposal per reading.

P99 over the SLO: limit × shrink factor. Cache use and fragmentation under their ceilings and P99 with slack: limit × growth
factor, in steps, up to the engine's limit. Else hold. A growth after which P99 rose lowers the growth factor.
"""

import math
from dataclasses import dataclass

from services.controller.core.readings import EngineReading
from services.controller.core.settings import MIN_GROWTH_FACTOR, LawSettings
from services.controller.domain import DecisionReason


@dataclass(frozen=True, kw_only=True)
class LawInput:
    """A fresh reading of a serving engine with `limit` sequences in force."""

    reading: EngineReading
    limit: int
    growth_factor: float
    # Judged P99 at the last growth whose effect is not judged yet.
    growth_p99_ms: float | None
    slo_ms: float


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """New limit (the old one to hold) and growth factor, with the reason and the numbers in words."""

    limit: int
    growth_factor: float
    reason: DecisionReason
    explanation: str


def propose(given: LawInput, law: LawSettings) -> Proposal:
    """Return the law's proposal. The limit proposed is between the law's minimum and the engine's limit, or unchanged."""
    judged = given.reading.judged
    if judged is not None and judged.count < law.min_samples:
        words = f"{judged.count} latency samples of at least {law.min_samples}"
        return _hold(given, DecisionReason.TOO_FEW_SAMPLES, words)
    p99_ms = None if judged is None else judged.p99_ms
    hurt = growth_hurt(before_ms=given.growth_p99_ms, after_ms=p99_ms, hurt_ratio=law.hurt_ratio)
    if p99_ms is not None and p99_ms > given.slo_ms:
        return _shrink(given, law, p99_ms=p99_ms, hurt=hurt)
    if hurt:
        words = f"P99 rose from {given.growth_p99_ms:.1f} to {p99_ms:.1f} ms after the last growth"
        return _hold(given, DecisionReason.GROWTH_HURT, words, growth_factor=lowered(given.growth_factor, law))
    return _grow(given, law, p99_ms=p99_ms)


def grown(limit: int, *, factor: float, step: int, most: int) -> int:
    """Return the limit after one growth: above `step` a multiple of it, at least the next one, never over `most`."""
    wanted = math.floor(limit * factor)
    if wanted > step:
        next_multiple = (limit // step + 1) * step
        wanted = max(wanted // step * step, next_multiple)
    return min(max(wanted, limit + 1), most)


def shrunk(limit: int, *, factor: float, least: int) -> int:
    """Return the limit after one shrink: at least one lower, never under `least`; a limit already under it stays."""
    return min(limit, max(min(math.floor(limit * factor), limit - 1), least))


def growth_hurt(*, before_ms: float | None, after_ms: float | None, hurt_ratio: float) -> bool:
    """Whether P99 rose by more than `hurt_ratio` after a growth; False where either reading is absent."""
    return before_ms is not None and after_ms is not None and after_ms > before_ms * (1 + hurt_ratio)


def lowered(factor: float, law: LawSettings) -> float:
    """Return the growth factor one step lower, at least MIN_GROWTH_FACTOR."""
    return max(MIN_GROWTH_FACTOR, round(factor - law.growth_factor_step, 3))


def _shrink(given: LawInput, law: LawSettings, *, p99_ms: float, hurt: bool) -> Proposal:
    factor = lowered(given.growth_factor, law) if hurt else given.growth_factor
    limit = shrunk(given.limit, factor=law.shrink_factor, least=law.min_active_sequences)
    words = f"P99 {p99_ms:.1f} ms is over the SLO of {given.slo_ms:.1f} ms"
    if limit == given.limit:
        return _hold(given, DecisionReason.AT_BOUND, f"{words}, at the least of {limit} sequences", growth_factor=factor)
    words = f"{words}: {given.limit} → {limit} sequences"
    return Proposal(limit=limit, growth_factor=factor, reason=DecisionReason.LATENCY_OVER_SLO, explanation=words)


def _grow(given: LawInput, law: LawSettings, *, p99_ms: float | None) -> Proposal:
    most = given.reading.limits.max_active_sequences
    inside = given.reading.running + given.reading.waiting
    if given.limit >= most:
        return _hold(given, DecisionReason.AT_BOUND, f"at the engine's limit of {most} sequences")
    if inside < given.limit:
        words = f"{inside} requests in the engine are fewer than the {given.limit} allowed"
        return _hold(given, DecisionReason.LIMIT_NOT_BINDING, words)
    obstacle = _obstacle(given, law, p99_ms=p99_ms)
    if obstacle:
        return _hold(given, DecisionReason.STEADY, obstacle)
    limit = grown(given.limit, factor=given.growth_factor, step=law.step_sequences, most=most)
    words = f"cache use {given.reading.kv_usage_ratio:.2f}, {_latency_words(p99_ms)}: {given.limit} → {limit} sequences"
    return Proposal(limit=limit, growth_factor=given.growth_factor, reason=DecisionReason.ROOM_TO_GROW, explanation=words)


def _obstacle(given: LawInput, law: LawSettings, *, p99_ms: float | None) -> str:
    """Return what stands against growing, or "". Unknown cache use stands against it, unknown fragmentation does not.

    Use is that of cache blocks: time spent in steps is near 1 at any batch size and says nothing about room.
    """
    usage, fragmentation = given.reading.kv_usage_ratio, given.reading.fragmentation_ratio
    ceiling_ms = given.slo_ms * (1 - law.dead_band_ratio)
    if usage is None:
        return "the engine does not report its cache use"
    if usage >= law.usage_ceiling_ratio:
        return f"cache use {usage:.2f} is not under {law.usage_ceiling_ratio:.2f}"
    if fragmentation is not None and fragmentation >= law.fragmentation_ceiling_ratio:
        return f"fragmentation {fragmentation:.2f} is not under {law.fragmentation_ceiling_ratio:.2f}"
    if p99_ms is not None and p99_ms > ceiling_ms:
        return f"P99 {p99_ms:.1f} ms is in the dead band of {ceiling_ms:.1f} to {given.slo_ms:.1f} ms"
    return ""


def _hold(given: LawInput, reason: DecisionReason, words: str, *, growth_factor: float | None = None) -> Proposal:
    factor = given.growth_factor if growth_factor is None else growth_factor
    return Proposal(limit=given.limit, growth_factor=factor, reason=reason, explanation=words)


def _latency_words(p99_ms: float | None) -> str:
    return "no realtime samples" if p99_ms is None else f"P99 {p99_ms:.1f} ms"
