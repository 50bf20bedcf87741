"""A small simulated engine for tests: 10 ms a step, 1 ms a prompt token, 1 ms a decode."""

from services.engine.backend.sim_backend import SimOptions
from services.engine.policy.step_cost import StepCost


def sim_options(*, kv_blocks: int = 64, max_active_sequences: int = 8) -> SimOptions:
    """Return options with a context of 256 tokens in blocks of 16."""
    return SimOptions(
        max_context_tokens=256,
        max_active_sequences=max_active_sequences,
        max_batched_tokens=256,
        block_size_tokens=16,
        kv_blocks=kv_blocks,
        cost=StepCost(base_ms=10.0, prefill_token_ms=1.0, decode_ms=1.0, context_ktoken_ms=0.0),
        speed=1.0,
        vocabulary_size=1000,
        seed=0,
    )
