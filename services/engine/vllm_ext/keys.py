"""What a request tells the scheduler, as keys of SamplingParams.extra_args: plain values that cross into the core process."""

# bool: ordered and protected as realtime.
REALTIME = "twinlane_realtime"
# int, -100 to 100: order within the lane.
PRIORITY = "twinlane_priority"
# float, wall time in seconds; absent without a deadline.
DEADLINE_S = "twinlane_deadline_s"
# bool: its blocks stay in the hot tier.
HOT = "twinlane_hot"
# bool: nobody will ask for its prefix again; its blocks are reused first.
ONE_SHOT = "twinlane_one_shot"
