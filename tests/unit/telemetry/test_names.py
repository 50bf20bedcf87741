import re

from libs.telemetry import names

CONSTANTS = {key: value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
METRICS = [value for value in CONSTANTS.values() if value.startswith("twinlane_")]


def test_names_are_all_different() -> None:
    assert len(set(CONSTANTS.values())) == len(CONSTANTS)


def test_metrics_are_named_as_prometheus_asks() -> None:
    assert METRICS
    assert all(re.fullmatch(r"twinlane_(router|engine|controller)_[a-z_]+[a-z]", name) for name in METRICS)
    assert not [name for name in METRICS if re.search(r"_(ms|milliseconds|percent|kb|mb)(_|$)", name)]


def test_buckets_rise() -> None:
    for buckets in (names.LATENCY_BUCKETS, names.STEP_BUCKETS):
        assert list(buckets) == sorted(set(buckets))
