"""What the scheduler must know of a request beyond vLLM's own fields; it travels in SamplingParams.extra_args."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from libs.core.lanes import Lane

# Key of our part in extra_args.
EXTRA_ARGS_KEY = "twinlane"


@dataclass(frozen=True, kw_only=True)
class RequestTag:
    """Class of a request. `deadline_s` is CLOCK_MONOTONIC of the machine that the engine runs on; infinite: none.

    `hot`: keep the prompt's blocks in the hot tier. `bypass_prefix_cache`: its blocks are of no use to others and are dropped
    when it has ended; what others cached it may still use.
    """

    lane: Lane = Lane.BATCH
    deadline_s: float = math.inf
    hot: bool = False
    bypass_prefix_cache: bool = False


def to_extra_args(tag: RequestTag) -> dict[str, Any]:
    """Return the tag as plain values, for SamplingParams.extra_args."""
    values: dict[str, Any] = {"lane": int(tag.lane), "hot": tag.hot, "bypass_prefix_cache": tag.bypass_prefix_cache}
    if math.isfinite(tag.deadline_s):
        values["deadline_s"] = tag.deadline_s
    return {EXTRA_ARGS_KEY: values}


def from_extra_args(extra_args: Mapping[str, Any] | None) -> RequestTag:
    """Read a tag back. A request without one (warm-up, vLLM's own) is background work without a deadline."""
    values = (extra_args or {}).get(EXTRA_ARGS_KEY)
    if not values:
        return RequestTag()
    return RequestTag(
        lane=Lane(values["lane"]),
        deadline_s=values.get("deadline_s", math.inf),
        hot=bool(values.get("hot", False)),
        bypass_prefix_cache=bool(values.get("bypass_prefix_cache", False)),
    )
