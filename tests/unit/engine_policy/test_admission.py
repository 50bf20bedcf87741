import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.policy.admission import Admission, SlotView, admit


@pytest.mark.parametrize(
    ("limit", "reserved", "realtime", "batch", "waiting", "expected"),
    [
        pytest.param(8, 2, 0, 0, 5, Admission(realtime=7, batch=6), id="idle: two slots kept for realtime, one for batch"),
        pytest.param(8, 2, 0, 6, 5, Admission(realtime=2, batch=0), id="batch at its limit"),
        pytest.param(8, 2, 7, 0, 5, Admission(realtime=0, batch=1), id="the last slot is batch's"),
        pytest.param(8, 2, 7, 0, 0, Admission(realtime=1, batch=1), id="no batch waits: realtime may have it"),
        pytest.param(8, 2, 7, 1, 5, Admission(realtime=0, batch=0), id="full"),
        pytest.param(4, 2, 3, 5, 5, Admission(realtime=0, batch=0), id="limit lowered below what runs"),
        pytest.param(1, 2, 0, 0, 5, Admission(realtime=1, batch=1), id="one slot"),
    ],
)
def test_admission_by_slots(limit: int, reserved: int, realtime: int, batch: int, waiting: int, expected: Admission) -> None:
    view = SlotView(
        active_limit=limit,
        realtime_reserved=reserved,
        realtime_running=realtime,
        batch_running=batch,
        batch_waiting=waiting,
    )

    assert admit(view) == expected


@given(*[st.integers(0, 64)] * 4, st.integers(1, 64))
def test_admission_never_exceeds_free_slots_and_leaves_somebody_a_way_in(
    reserved: int, realtime: int, batch: int, waiting: int, limit: int
) -> None:
    view = SlotView(
        active_limit=limit,
        realtime_reserved=reserved,
        realtime_running=realtime,
        batch_running=batch,
        batch_waiting=waiting,
    )

    given_slots = admit(view)

    free = max(limit - realtime - batch, 0)
    assert 0 <= given_slots.realtime <= free
    assert 0 <= given_slots.batch <= free
    assert free == 0 or given_slots.realtime + given_slots.batch > 0
