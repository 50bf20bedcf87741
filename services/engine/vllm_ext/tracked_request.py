"""What the scheduler remembers of each request that it knows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.engine.policy.ordering import background_key, is_realtime, realtime_key
from services.engine.policy.request_tag import RequestTag, from_extra_args


@dataclass(slots=True, kw_only=True)
class TrackedRequest:
    """One request from its arrival in the core to its end. Owned by the scheduler; times are CLOCK_MONOTONIC.

    `order_key` compares within its class: realtime with realtime, background with background.
    """

    tag: RequestTag
    realtime: bool
    arrived_s: float
    order_key: tuple[float, ...]
    # Order among all running requests: realtime first, then order_key.
    running_key: tuple[float, ...]
    # Computed tokens that the last preemption took away; None while there is none to be made good.
    lost_tokens: int | None = None
    # Prompt tokens that its first step found in the prefix cache; None before that step.
    cached_tokens: int | None = None


TrackOf = Callable[[Any], TrackedRequest]


def track(request: Any, *, now_s: float) -> TrackedRequest:
    """Return the record of a vllm.v1.request.Request that arrives at `now_s`."""
    params = request.sampling_params
    tag = from_extra_args(None if params is None else params.extra_args)
    realtime = is_realtime(tag.lane)
    if realtime:
        key: tuple[float, ...] = realtime_key(deadline_s=tag.deadline_s, arrival_s=now_s, priority=request.priority)
    else:
        key = (background_key(lane=tag.lane, arrival_s=now_s, priority=request.priority),)
    return TrackedRequest(tag=tag, realtime=realtime, arrived_s=now_s, order_key=key, running_key=(not realtime, *key))
