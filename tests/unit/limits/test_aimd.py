import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.limits.aimd import AimdLaw

LAW = AimdLaw(minimum=8, maximum=64, increase=2, decrease_ratio=0.5)
LIMITS = st.floats(min_value=0.1, max_value=1000)


@pytest.mark.parametrize(
    ("limit", "overloaded", "limiting", "expected"),
    [
        pytest.param(20, False, True, 22, id="good-and-limiting-grows"),
        pytest.param(20, False, False, 20, id="good-but-not-limiting-stays"),
        pytest.param(20, True, True, 10, id="overloaded-shrinks"),
        pytest.param(20, True, False, 10, id="overloaded-shrinks-though-not-limiting"),
        pytest.param(63, False, True, 64, id="growth-stops-at-maximum"),
        pytest.param(10, True, True, 8, id="shrinking-stops-at-minimum"),
        pytest.param(100, False, False, 64, id="limit-above-bounds-comes-in"),
        pytest.param(1, False, False, 8, id="limit-below-bounds-comes-in"),
    ],
)
def test_step_from_one_sample_gives_the_limit(limit: float, overloaded: bool, limiting: bool, expected: float) -> None:
    assert LAW.step(limit, overloaded=overloaded, limiting=limiting) == expected


@pytest.mark.parametrize(
    ("minimum", "maximum", "increase", "decrease_ratio", "name"),
    [
        pytest.param(0, 1, 1, 0.5, "minimum", id="minimum-zero"),
        pytest.param(2, 1, 1, 0.5, "minimum", id="bounds-crossed"),
        pytest.param(1, math.inf, 1, 0.5, "minimum", id="maximum-infinite"),
        pytest.param(1, 2, 0, 0.5, "increase", id="no-increase"),
        pytest.param(1, 2, 1, 1, "decrease_ratio", id="no-decrease"),
        pytest.param(1, 2, 1, 0, "decrease_ratio", id="decrease-to-nothing"),
    ],
)
def test_law_with_impossible_setting_names_it(
    minimum: float, maximum: float, increase: float, decrease_ratio: float, name: str
) -> None:
    with pytest.raises(ValueError, match=f"^{name}:"):
        AimdLaw(minimum=minimum, maximum=maximum, increase=increase, decrease_ratio=decrease_ratio)


@given(limit=LIMITS, samples=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=50))
def test_limit_through_any_samples_stays_in_bounds(limit: float, samples: list[tuple[bool, bool]]) -> None:
    for overloaded, limiting in samples:
        limit = LAW.step(limit, overloaded=overloaded, limiting=limiting)
        assert LAW.minimum <= limit <= LAW.maximum


@given(limit=st.floats(min_value=8, max_value=64), overloaded=st.booleans())
def test_step_while_not_limiting_never_grows(limit: float, overloaded: bool) -> None:
    assert LAW.step(limit, overloaded=overloaded, limiting=False) <= limit


@given(limit=st.floats(min_value=8, max_value=63))
def test_step_on_overload_always_ends_below_a_good_step(limit: float) -> None:
    assert LAW.step(limit, overloaded=True, limiting=True) < LAW.step(limit, overloaded=False, limiting=True)
