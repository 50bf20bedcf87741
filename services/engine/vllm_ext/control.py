"""The control channel into vLLM's core process: one method, called between steps, idle or busy.

Every attribute of vLLM that is relied on here is named in `RELIED_ON`; tests/contract/test_vllm_internals.py checks them.
"""

from typing import Any

from services.engine.vllm_ext.scheduler_control import handle

CONTROL_METHOD = "twinlane_control"

# Attributes of vllm.v1.core.sched.scheduler.Scheduler.
RELIED_ON = (
    "max_num_active_reqs",
    "max_num_scheduled_tokens",
    "max_num_running_reqs",
    "running",
    "waiting",
    "kv_cache_manager",
)


# Orders under this key are for the class-aware scheduler, see scheduler_control.handle.
CLASS_AWARE_KEY = "class_aware"


def control(core: Any, payload: dict[str, Any]) -> dict[str, Any]:
    """Set what the payload names and return what holds, together with the core's load.

    Keys: max_active_sequences, max_batched_tokens; or CLASS_AWARE_KEY alone, with an order for our own scheduler. `core` is the
    vllm.v1.engine.core.EngineCore; the caller has clamped the values to the startup envelope, of which max_num_running_reqs is
    the part that is kept here too.
    """
    scheduler = core.scheduler
    if CLASS_AWARE_KEY in payload:
        return handle(scheduler, payload[CLASS_AWARE_KEY])
    if "max_active_sequences" in payload:
        scheduler.max_num_active_reqs = min(payload["max_active_sequences"], scheduler.max_num_running_reqs)
    if "max_batched_tokens" in payload:
        scheduler.max_num_scheduled_tokens = payload["max_batched_tokens"]
    return {
        "max_active_sequences": scheduler.max_num_active_reqs,
        "max_batched_tokens": scheduler.max_num_scheduled_tokens,
        "running": len(scheduler.running),
        "waiting": len(scheduler.waiting),
        "kv_usage_ratio": scheduler.kv_cache_manager.usage,
    }
