"""What the control method asks of the class-aware scheduler: set, purge, read. Plain values in and out, between steps."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from libs.core.lanes import Lane
from services.engine.policy.scheduler_tuning import apply_update
from services.engine.policy.tiering import Tier
from services.engine.vllm_ext.allocator import allocator_fragmentation


def handle(scheduler: Any, order: Mapping[str, Any]) -> dict[str, Any]:
    """Carry one order out and return its answers by name. Keys, each optional, done in this order:

    `restore` true; `set`: see `apply`; `purge`: {"share": 0 to 1, "tiers": names, absent: both}; `read` true.
    """
    answers: dict[str, Any] = {}
    if order.get("restore"):
        answers["restore"] = restore(scheduler)
    if "set" in order:
        answers["set"] = apply(scheduler, order["set"])
    if "purge" in order:
        tiers = frozenset(Tier(name) for name in order["purge"].get("tiers", [tier.value for tier in Tier]))
        answers["purge"] = purge(scheduler, share=order["purge"]["share"], tiers=tiers)
    if order.get("read"):
        answers["read"] = read(scheduler)
    return answers


def apply(scheduler: Any, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Set the tuning fields that `payload` names (see SchedulerTuning), at the step boundary where this is called.

    Returns {"tuning": all values in force, "clamped_fields": names}. Raises KeyError or ValueError, with nothing changed.
    """
    applied = apply_update(scheduler.state.tuning, payload, scheduler.state.envelope)
    scheduler.set_tuning(applied.values)
    return {"tuning": asdict(applied.values), "clamped_fields": list(applied.clamped_fields)}


def restore(scheduler: Any) -> dict[str, Any]:
    """Let the values of the start hold again, as at the end of a tuning lease; returns what `apply` returns."""
    scheduler.set_tuning(scheduler.state.defaults)
    return {"tuning": asdict(scheduler.state.tuning), "clamped_fields": []}


def purge(scheduler: Any, *, share: float, tiers: frozenset[Tier] = frozenset(Tier)) -> dict[str, int]:
    """Empty a share (0 to 1) of the idle cached blocks of these tiers, coldest first; blocks in use stay.

    Returns what went, by tier, and what is left. Raises ValueError for a share out of range.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share: {share} must lie between 0 and 1")
    purged = scheduler.cache.purge(share=share, tiers=tiers)
    held = scheduler.cache.tiers
    return {
        "purged_cold_blocks": len(purged.cold),
        "purged_hot_blocks": len(purged.hot),
        "cold_blocks": held.cold_blocks,
        "hot_blocks": held.hot_blocks,
    }


def read(scheduler: Any) -> dict[str, Any]:
    """Return one reading of everything that telemetry shows; counters run from the engine's start, absent values are None."""
    state, tiers = scheduler.state, scheduler.cache.tiers
    budget = state.budget
    return {
        "lanes": _lanes(scheduler),
        "active_limit": scheduler.max_num_active_reqs,
        "tuning": asdict(state.tuning),
        "step_s": state.step_s.value,
        "predicted_step_s": state.predicted_s.value,
        "prediction_error_ratio": state.model.relative_error,
        "coefficients": asdict(state.model.coefficients),
        "step_target_s": None if budget is None else budget.target_s,
        "batch_budget_tokens": None if budget is None else budget.batch_tokens,
        "batch_debt_tokens": state.debt.tokens,
        "total_blocks": state.envelope.total_blocks,
        "blank_blocks": tiers.blank_blocks,
        "cold_blocks": tiers.cold_blocks,
        "hot_blocks": tiers.hot_blocks,
        "ghost_entries": scheduler.cache.ghost_entries,
        "kv_usage_ratio": scheduler.kv_cache_manager.usage,
        "internal_fragmentation_ratio": _internal_fragmentation(scheduler),
        "allocator_fragmentation_ratio": allocator_fragmentation(),
        **asdict(state.counters),
        **asdict(scheduler.cache.counters),
    }


def check_integrity(scheduler: Any) -> None:
    """Raise AssertionError where the scheduler, its queue, its blocks and vLLM's own books contradict one another."""
    scheduler.cache.tiers.check_integrity()
    if scheduler.tracked.keys() != scheduler.requests.keys():
        raise AssertionError("requests known and requests tracked differ")
    pool = scheduler.kv_cache_manager.block_pool
    free = {block.block_id for block in pool.free_block_queue.get_all_free_blocks()}
    idle = {block.block_id for block in pool.blocks if block.ref_cnt == 0 and not block.is_null}
    if free != idle:
        raise AssertionError(f"{len(idle - free)} idle blocks are not free, {len(free - idle)} free ones are in use")


def _lanes(scheduler: Any) -> dict[str, dict[str, int]]:
    lanes = {lane: {"waiting": 0, "running": 0} for lane in Lane}
    for request in scheduler.running:
        lanes[scheduler.track_of(request).tag.lane]["running"] += 1
    for tracked in scheduler.tracked.values():
        lanes[tracked.tag.lane]["waiting"] += 1
    for counts in lanes.values():
        counts["waiting"] -= counts["running"]
    return {lane.name.lower(): counts for lane, counts in lanes.items()}


def _internal_fragmentation(scheduler: Any) -> float | None:
    """Return the share of the running requests' blocks that holds no token yet; None while nothing runs."""
    allocated = used = 0
    for request in scheduler.running:
        allocated += scheduler.cache.allocated_blocks(request) * scheduler.block_size
        used += request.num_computed_tokens
    return max(1 - used / allocated, 0.0) if allocated else None
