"""Time of a step: close to linear in what it processes (measured on vLLM for CPU)."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Milliseconds: for any step, for each prompt token, for each decoding sequence, for each 1,000 tokens of their context."""

    base_ms: float
    prefill_token_ms: float
    decode_ms: float
    context_ktoken_ms: float


def step_s(cost: StepCost, *, prompt_tokens: int, decodes: int, context_tokens: int) -> float:
    """Return the duration of a step in seconds; `context_tokens` is the sum over its decoding sequences."""
    return (
        cost.base_ms
        + cost.prefill_token_ms * prompt_tokens
        + cost.decode_ms * decodes
        + cost.context_ktoken_ms * context_tokens / 1000
    ) / 1000
