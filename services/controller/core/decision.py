"""Outputs of one tick."""

from dataclasses import dataclass

from services.controller.domain import NO_TUNING, DecisionAction, DecisionReason, Tuning


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A conclusion about one engine and the numbers behind it.

    `override_id` is not empty where the decision is the first to carry out that override.
    """

    engine_id: str
    action: DecisionAction
    reason: DecisionReason
    explanation: str
    before: Tuning
    after: Tuning
    p99_ms: float | None
    slo_ms: float
    growth_factor: float
    override_id: str = ""


@dataclass(frozen=True, kw_only=True)
class SendTuning:
    """Effect: give the engine this tuning, or renew the lease of what it holds already."""

    engine_id: str
    tuning: Tuning
    is_renewal: bool


@dataclass(frozen=True, kw_only=True)
class Actuation:
    """What became of an effect. `applied` is what holds where `error` is empty; `fenced`: a newer controller leads."""

    engine_id: str
    applied: Tuning = NO_TUNING
    error: str = ""
    fenced: bool = False
