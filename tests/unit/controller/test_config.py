"""The controller's configuration."""

from pathlib import Path
from typing import Any

import pytest

from libs.config.load import ConfigError, build
from services.controller.config import ControllerConfig, load_config

MINIMAL: dict[str, Any] = {"service": "controller", "controller_id": "c", "address": "127.0.0.1:0"}


def test_build_minimal_table_takes_the_defaults() -> None:
    config = build(dict(MINIMAL), ControllerConfig, file="f")
    assert (config.registry.lease_s, config.registry.renew_interval_s) == (3.0, 1.0)
    assert (config.slo.realtime_p99_ms, config.law.pools, config.metrics_address) == (100.0, ("batch",), None)
    assert config.step_settings.renew_after_s == 10.0


def test_load_shipped_example_gives_the_defaults() -> None:
    shipped = load_config(Path("deploy/config/controller.toml"))
    table = {**MINIMAL, "controller_id": "controller-1", "address": shipped.address, "metrics_address": shipped.metrics_address}
    assert shipped == build(table, ControllerConfig, file="f")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"service": "engine"}, "service", id="another service"),
        pytest.param({"controller_id": ""}, "controller_id", id="empty id"),
        pytest.param({"address": "nowhere"}, "address", id="address without port"),
        pytest.param({"metrics_address": "host:99999"}, "metrics_address", id="port too high"),
        pytest.param({"journal": {"url": "postgresql://db/x"}}, "journal.url", id="not SQLite"),
        pytest.param({"journal": {"url": "sqlite:///"}}, "journal.url", id="no file"),
        pytest.param({"journal": {"keep_days": 0}}, "journal.keep_days", id="keeps nothing"),
        pytest.param({"registry": {"lease_s": 1.0, "renew_interval_s": 0.6}}, "registry", id="renewal too rare"),
        pytest.param({"telemetry": {"stale_s": 1.0}}, "telemetry.stale_s", id="stale within a heartbeat"),
        pytest.param({"loop": {"tick_s": 0}}, "loop.tick_s", id="no tick"),
        pytest.param({"slo": {"realtime_p99_ms": 0}}, "slo.realtime_p99_ms", id="no SLO"),
        pytest.param({"law": {"growth_factor": 1.9}}, "law.growth_factor", id="growth too fast"),
        pytest.param({"law": {"shrink_factor": 1.0}}, "law.shrink_factor", id="no shrinking"),
        pytest.param({"law": {"usage_ceiling_ratio": 1.1}}, "law.usage_ceiling_ratio", id="ratio over 1"),
        pytest.param({"law": {"speed": 1}}, "law.speed", id="unknown key"),
        pytest.param({"tuning": {"lease_s": 0.5}}, "tuning.lease_s", id="lease too short"),
    ],
)
def test_build_bad_value_is_named_with_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as failure:
        build({**MINIMAL, **change}, ControllerConfig, file="f")
    assert [fault.path for fault in failure.value.faults] == [path]
