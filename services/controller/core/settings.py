"""What the laws are told by the configuration: the ranges here are checked when the file is read."""

from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt
from pydantic.dataclasses import dataclass

from libs.config.load import STRICT

Ratio = Annotated[float, Ge(0), Le(1)]

# The reference law: shrink to nine tenths, grow by half.
DEFAULT_SHRINK_FACTOR = 0.9
DEFAULT_GROWTH_FACTOR = 1.5
# Below 1.3 a growth step is lost in rounding, above 1.8 it overshoots.
MIN_GROWTH_FACTOR = 1.3
MAX_GROWTH_FACTOR = 1.8
DEFAULT_GROWTH_FACTOR_STEP = 0.2
# More than a quarter of the cache stays free for prompts that are longer than those seen so far.
DEFAULT_USAGE_CEILING_RATIO = 0.75
DEFAULT_FRAGMENTATION_CEILING_RATIO = 0.10
# A P99 that moves by less than a tenth is noise.
DEFAULT_HURT_RATIO = 0.10
DEFAULT_DEAD_BAND_RATIO = 0.10
# Long enough for the engine's latency window to hold mostly samples from after the change.
DEFAULT_COOLDOWN_S = 10.0
# The 99th percentile of fewer is nearly the maximum; a burst of outliers would steer.
DEFAULT_MIN_SAMPLES = 20
DEFAULT_MIN_ACTIVE_SEQUENCES = 4
# Batch sizes that are multiples of eight fill the hardware's tiles.
DEFAULT_STEP_SEQUENCES = 8
DEFAULT_POOLS = ("batch",)


@dataclass(config=STRICT, kw_only=True)
class LawSettings:
    """The batch law and its guards."""

    # New limit = old × this, while P99 is over the SLO.
    shrink_factor: Annotated[float, Ge(0.1), Lt(1)] = DEFAULT_SHRINK_FACTOR
    # New limit = old × this, while there is room; each engine starts with it.
    growth_factor: Annotated[float, Ge(MIN_GROWTH_FACTOR), Le(MAX_GROWTH_FACTOR)] = DEFAULT_GROWTH_FACTOR
    # Taken off an engine's growth factor when a growth hurt; the factor stays at or above MIN_GROWTH_FACTOR.
    growth_factor_step: Annotated[float, Gt(0), Le(0.5)] = DEFAULT_GROWTH_FACTOR_STEP
    # Grow only while the share of cache blocks in use is below.
    usage_ceiling_ratio: Ratio = DEFAULT_USAGE_CEILING_RATIO
    # Grow only while fragmentation is below, where it is measured.
    fragmentation_ceiling_ratio: Ratio = DEFAULT_FRAGMENTATION_CEILING_RATIO
    # A growth hurt when P99 rose by more than this share.
    hurt_ratio: Ratio = DEFAULT_HURT_RATIO
    # Grow only while P99 is at least this share below the SLO.
    dead_band_ratio: Annotated[float, Ge(0), Lt(1)] = DEFAULT_DEAD_BAND_RATIO
    # Seconds without a further change of an engine after one.
    cooldown_s: Annotated[float, Ge(0), Le(3600)] = DEFAULT_COOLDOWN_S
    # Latency samples needed to judge P99.
    min_samples: Annotated[int, Ge(1)] = DEFAULT_MIN_SAMPLES
    # Shrinking stops here.
    min_active_sequences: Annotated[int, Ge(1)] = DEFAULT_MIN_ACTIVE_SEQUENCES
    # Limits above this are grown to multiples of it.
    step_sequences: Annotated[int, Ge(1)] = DEFAULT_STEP_SEQUENCES
    # Pools whose engines the law governs.
    pools: tuple[str, ...] = DEFAULT_POOLS


@dataclass(config=STRICT, kw_only=True)
class StepSettings:
    """All that `step` needs besides state and readings."""

    law: LawSettings
    # Realtime P99 to the last token that is promised.
    slo_ms: float
    # Readings older than this are not decided on.
    stale_s: float
    # Held tuning is sent again when its confirmation is this old, a third of the lease that engines get.
    renew_after_s: float
