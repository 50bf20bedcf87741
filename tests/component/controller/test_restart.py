"""What survives the end of a controller, and what its start refuses."""

import asyncio
import sqlite3
import urllib.request
from pathlib import Path

import pytest
from google.protobuf import duration_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from twinlane.common.v1 import tuning_pb2
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc, engines_pb2, engines_pb2_grpc

from libs.rpc.address import ListenError
from libs.telemetry import names
from services.controller.config import ControllerConfig
from services.controller.journal.store import JournalOpenError
from services.controller.main import main, start
from tests.component.controller.fake_engine import joined
from tests.component.controller.mesh import (
    PATIENCE_S,
    controller_config,
    decisions,
    eventually,
    serving,
    status,
)


def test_restart_raises_the_epoch_and_keeps_pause_and_override(tmp_path: Path) -> None:
    async def first(config: ControllerConfig) -> None:
        async with serving(config) as (controller, channel):
            async with joined(channel):
                stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
                await stub.Pause(admin_pb2.PauseRequest(reason="night"))
                await stub.SetOverride(
                    admin_pb2.SetOverrideRequest(
                        engine_id="batch-1",
                        tuning=tuning_pb2.Tuning(max_active_sequences=5),
                        ttl=duration_pb2.Duration(seconds=600),
                        reason="night",
                    )
                )
            assert controller.controller_epoch == 1

    async def second(config: ControllerConfig) -> None:
        async with serving(config) as (_controller, channel), joined(channel, epoch=2) as engine:
            async with asyncio.timeout(PATIENCE_S):
                await engine.updated.wait()
            seen = await status(channel)
            assert (seen.controller_epoch, seen.paused, seen.pause_reason) == (2, True, "night")
            assert seen.engines[0].override.tuning.max_active_sequences == 5
            assert engine.updates[0].tuning.max_active_sequences == 5
            assert engine.updates[0].controller_epoch == 2

    config = controller_config(tmp_path)
    asyncio.run(first(config))
    asyncio.run(second(config))


def test_restart_same_engine_gets_its_learnt_tuning_renewed(tmp_path: Path) -> None:
    async def learn(config: ControllerConfig) -> int:
        async with serving(config) as (_controller, channel), joined(channel) as engine:
            await eventually(lambda: decisions(channel, changes_only=True), lambda rows: len(rows) > 0)
            return engine.max_active_sequences

    async def renew(config: ControllerConfig, held: int) -> int:
        async with serving(config) as (_controller, channel), joined(channel, max_active_sequences=held, running=0) as engine:
            async with asyncio.timeout(PATIENCE_S):
                await engine.updated.wait()
            return engine.updates[0].tuning.max_active_sequences

    config = controller_config(tmp_path)
    held = asyncio.run(learn(config))
    assert asyncio.run(renew(config, held)) == held == 24


def test_restart_first_table_has_every_engine_that_goes_on_renewing(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        config = controller_config(tmp_path, registry={"lease_s": 2.0, "renew_interval_s": 0.5})
        async with serving(config):
            pass
        async with serving(config) as (_, channel):
            watch = engines_pb2_grpc.EngineTableServiceStub(channel).WatchEngines(engines_pb2.WatchEnginesRequest())
            async with joined(channel, engine_id="a"), joined(channel, engine_id="b"), asyncio.timeout(PATIENCE_S):
                first = await watch.read()
            watch.cancel()
            assert isinstance(first, engines_pb2.WatchEnginesResponse)
            return [row.descriptor.engine_id for row in first.engines]

    assert asyncio.run(scenario()) == ["a", "b"]


def test_journal_locked_control_goes_on_and_the_failures_are_counted(tmp_path: Path) -> None:
    async def scenario() -> str:
        config = controller_config(tmp_path, metrics_address="127.0.0.1:0")
        async with serving(config) as (controller, channel):
            locker = sqlite3.connect(tmp_path / "controller.db")
            locker.execute("BEGIN EXCLUSIVE")
            try:
                async with joined(channel) as engine:
                    async with asyncio.timeout(PATIENCE_S):
                        await engine.updated.wait()
                    return await eventually(lambda: _metrics(controller.metrics_port), _counts_a_journal_failure)
            finally:
                locker.rollback()
                locker.close()

    assert names.CONTROLLER_DECISIONS in asyncio.run(scenario())


def test_health_and_metrics_are_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = controller_config(tmp_path, metrics_address="127.0.0.1:0")
        async with serving(config) as (controller, channel):
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            async with joined(channel):
                text = await eventually(
                    lambda: _metrics(controller.metrics_port), lambda text: f'{names.ENGINE}="batch-1"' in text
                )
                assert f'{names.CONTROLLER_ENGINES}{{{names.POOL}="batch"}} 1.0' in text
            await eventually(lambda: _metrics(controller.metrics_port), lambda text: f'{names.ENGINE}="batch-1"' not in text)

    asyncio.run(scenario())


def test_start_port_in_use_raises_listen_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path / "a")) as (controller, _):
            with pytest.raises(ListenError, match=controller.address):
                await start(controller_config(tmp_path / "b", address=controller.address))

    asyncio.run(scenario())


def test_start_journal_folder_is_a_file_raises_journal_open_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalOpenError, match=r"journal\.url"):
        asyncio.run(start(controller_config(tmp_path / "file")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param('service = "router"\n', "service: Input should be 'controller'", id="another service"),
        pytest.param('service = "controller"\nspeed = 3\n', "speed: unknown key", id="unknown key"),
        pytest.param(
            'service = "controller"\n[journal]\nurl = "postgresql://x"\n', "journal.url: 'postgresql://x' is not", id="journal"
        ),
    ],
)
def test_main_bad_configuration_exits_2_with_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    file = tmp_path / "controller.toml"
    file.write_text(text)
    assert main(["--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"{file}: {words}" in error
    assert "Traceback" not in error


async def _metrics(port: int | None) -> str:
    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            text: str = response.read().decode()
            return text

    return await asyncio.to_thread(read)


def _counts_a_journal_failure(text: str) -> bool:
    return any(line.startswith(names.CONTROLLER_JOURNAL_FAILURES) and not line.endswith(" 0.0") for line in text.splitlines())
