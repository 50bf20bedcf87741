"""Leases and counts of one engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twinlane.common.v1 import engine_pb2

from services.router.domain import Freshness
from services.router.engines.client import EngineClient
from services.router.engines.slot import EngineSlot, Lease, Reading


class NoClient(EngineClient):
    """A client that is never used."""

    def __init__(self) -> None:
        self.address = ""


def new_slot() -> EngineSlot:
    return EngineSlot(engine_pb2.EngineDescriptor(engine_id="e"), NoClient())


def reading(sequence: int, *, taken_at_s: float = 0.0, backlog: int = 0) -> Reading:
    return Reading(taken_at_s=taken_at_s, sequence=sequence, backlog_tokens=backlog, prompt_tokens_per_s=None, step_s=None)


def test_calls_count_at_once_and_not_twice_when_telemetry_shows_them() -> None:
    slot = new_slot()
    slot.read(reading(1, backlog=0))
    first = slot.take(100)
    assert slot.view(now_s=0, fresh_s=1).load.unseen_tokens == 100

    slot.read(reading(2, backlog=100))
    assert slot.view(now_s=0, fresh_s=1).load.unseen_tokens == 0

    second = slot.take(50)
    first.first_token()
    assert slot.view(now_s=0, fresh_s=1).load.unseen_tokens == 50
    assert slot.waiting_tokens == 50
    first.release()
    second.release()
    slot.check_integrity()
    assert (slot.in_flight, slot.waiting_tokens, slot.unseen_tokens) == (0, 0, 0)


def test_older_reading_is_ignored() -> None:
    slot = new_slot()
    slot.read(reading(5, backlog=10))
    slot.read(reading(4, backlog=99))

    assert slot.view(now_s=0, fresh_s=1).load.backlog_tokens == 10


def test_freshness_follows_the_age_of_the_reading() -> None:
    slot = new_slot()
    assert slot.freshness(now_s=0, fresh_s=3) is Freshness.ABSENT
    slot.read(reading(1, taken_at_s=10))
    assert slot.freshness(now_s=13, fresh_s=3) is Freshness.FRESH
    assert slot.freshness(now_s=13.1, fresh_s=3) is Freshness.STALE


def test_stale_engine_counts_every_waiting_token_of_this_router() -> None:
    slot = new_slot()
    slot.take(70)
    slot.read(reading(1, taken_at_s=0, backlog=500))

    assert slot.view(now_s=0, fresh_s=3).load.unseen_tokens == 0
    assert slot.view(now_s=9, fresh_s=3).load.unseen_tokens == 70


def test_lease_released_twice_is_an_error() -> None:
    lease = new_slot().take(1)
    lease.release()

    with pytest.raises(RuntimeError, match="released twice"):
        lease.release()


@given(st.lists(st.sampled_from(["take", "first", "release", "read"]), max_size=60))
def test_counts_return_to_zero_whatever_the_order(steps: list[str]) -> None:
    slot, leases, sequence = new_slot(), list[Lease](), 0
    for step in steps:
        if step == "take":
            leases.append(slot.take(10))
        elif step == "read":
            sequence += 1
            slot.read(reading(sequence))
        elif leases and step == "first":
            leases[0].first_token()
        elif leases:
            leases.pop().release()
        slot.check_integrity()
    for lease in leases:
        lease.release()

    assert (slot.in_flight, slot.waiting_tokens, slot.unseen_tokens) == (0, 0, 0)
