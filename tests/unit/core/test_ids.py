from random import Random

from libs.core.clock import ManualClock
from libs.core.ids import IdSource


def test_next_has_prefix_milliseconds_and_random_bits() -> None:
    source = IdSource(clock=ManualClock(wall_s=1.5), random=Random(0))
    prefix, millis, bits = source.next("req").split("-")
    assert (prefix, millis, len(bits)) == ("req", f"{1500:012x}", 16)


def test_next_of_the_same_time_and_chance_is_the_same() -> None:
    first, second = (IdSource(clock=ManualClock(), random=Random(7)).next("req") for _ in range(2))
    assert first == second


def test_next_at_one_instant_never_repeats() -> None:
    source = IdSource(clock=ManualClock(), random=Random(0))
    assert len({source.next("req") for _ in range(1000)}) == 1000


def test_ids_of_later_milliseconds_sort_behind() -> None:
    clock = ManualClock()
    source = IdSource(clock=clock, random=Random(0))
    made = []
    for _ in range(20):
        made.append(source.next("req"))
        clock.advance(0.002)
    assert made == sorted(made)
