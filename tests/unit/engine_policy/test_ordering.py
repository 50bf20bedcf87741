import math

from libs.core.lanes import Lane
from services.engine.policy.ordering import AGEING_S_PER_LEVEL, background_key, is_late, is_realtime, realtime_key


def test_only_the_realtime_lane_is_realtime() -> None:
    assert [is_realtime(lane) for lane in (Lane.REALTIME, Lane.BATCH, Lane.AUTO)] == [True, False, False]


def test_realtime_is_ordered_by_deadline_not_arrival() -> None:
    early = realtime_key(deadline_s=10.0, arrival_s=5.0, priority=0)
    late = realtime_key(deadline_s=11.0, arrival_s=4.0, priority=0)

    assert early < late


def test_realtime_of_higher_urgency_goes_before_an_earlier_deadline() -> None:
    assert realtime_key(deadline_s=11.0, arrival_s=4.0, priority=-1) < realtime_key(deadline_s=10.0, arrival_s=4.0, priority=0)


def test_realtime_without_deadline_is_ordered_as_if_it_had_a_second() -> None:
    without = realtime_key(deadline_s=math.inf, arrival_s=4.0, priority=0)

    assert realtime_key(deadline_s=4.9, arrival_s=4.0, priority=0) < without
    assert without < realtime_key(deadline_s=5.1, arrival_s=4.0, priority=0)


def test_background_of_equal_priority_is_ordered_by_arrival() -> None:
    first = background_key(lane=Lane.BATCH, arrival_s=1.0, priority=0)

    assert first < background_key(lane=Lane.BATCH, arrival_s=2.0, priority=0)


def test_background_of_lower_rank_waits_at_most_the_worth_of_its_levels() -> None:
    low = background_key(lane=Lane.BATCH, arrival_s=0.0, priority=10)

    assert background_key(lane=Lane.BATCH, arrival_s=10 * AGEING_S_PER_LEVEL - 0.1, priority=0) < low
    assert low < background_key(lane=Lane.BATCH, arrival_s=10 * AGEING_S_PER_LEVEL + 0.1, priority=0)


def test_auto_goes_before_batch_of_the_same_time() -> None:
    assert background_key(lane=Lane.AUTO, arrival_s=5.0, priority=0) < background_key(
        lane=Lane.BATCH, arrival_s=5.0, priority=0
    )


def test_late_begins_at_the_deadline() -> None:
    assert [is_late(deadline_s=5.0, now_s=now_s) for now_s in (4.9, 5.0)] == [False, True]
    assert not is_late(deadline_s=math.inf, now_s=1e12)
