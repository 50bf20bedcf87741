"""Rate of work while there is work: idle time neither lowers it nor counts."""

from dataclasses import dataclass

# Long enough to hold several batch prompts of a slow engine, short enough to follow a change of tuning.
HALF_LIFE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class ActiveRate:
    """Amount and active seconds, both decayed; their quotient is the rate."""

    amount: float = 0.0
    active_s: float = 0.0


def advance(rate: ActiveRate, elapsed_s: float) -> ActiveRate:
    """Let `elapsed_s` seconds of work pass: what came before loses half its weight each HALF_LIFE_S."""
    keep = 2.0 ** (-elapsed_s / HALF_LIFE_S)
    return ActiveRate(amount=rate.amount * keep, active_s=rate.active_s * keep + elapsed_s)


def count(rate: ActiveRate, amount: float) -> ActiveRate:
    """Add work done."""
    return ActiveRate(amount=rate.amount + amount, active_s=rate.active_s)


def per_second(rate: ActiveRate) -> float | None:
    """Return the rate, or None before any work was done in measurable time."""
    if rate.amount <= 0 or rate.active_s <= 0:
        return None
    return rate.amount / rate.active_s
