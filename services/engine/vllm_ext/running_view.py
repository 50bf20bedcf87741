"""The running requests as the policies see them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from services.engine.vllm_ext.tracked_request import TrackedRequest


class RunningView(NamedTuple):
    """Running requests by class, the decodes among them, and the prompt tokens that are still to come."""

    realtime: int
    batch: int
    decodes: int
    context_tokens: int
    realtime_prefill_tokens: int
    # Of the batch prompt that goes on next; 0 where none is under way.
    batch_computed_tokens: int


def view_running(running: Iterable[Any], tracked: Mapping[str, TrackedRequest]) -> RunningView:
    """Return the view of vLLM's requests, given in the order in which they will be scheduled."""
    realtime = batch = decodes = context = realtime_prefill = 0
    batch_computed: int | None = None
    for request in running:
        is_realtime = tracked[request.request_id].realtime
        if is_realtime:
            realtime += 1
        else:
            batch += 1
        computed = request.num_computed_tokens
        left = request.num_tokens + request.num_output_placeholders - computed
        if left <= 1:
            decodes += 1
            context += computed
        elif is_realtime:
            realtime_prefill += left
        elif batch_computed is None:
            batch_computed = computed
    return RunningView(
        realtime=realtime,
        batch=batch,
        decodes=decodes,
        context_tokens=context,
        realtime_prefill_tokens=realtime_prefill,
        batch_computed_tokens=batch_computed or 0,
    )
