"""Engines join, are observed, tuned and lost; routers hear of it."""

import asyncio
from pathlib import Path
from typing import TypeAlias

import grpc
import pytest
from google.protobuf import duration_pb2
from twinlane.common.v1 import engine_pb2, tuning_pb2
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc, engines_pb2, engines_pb2_grpc, registry_pb2, registry_pb2_grpc

from libs.rpc.fault import Fault, read_fault
from services.controller.main import start
from tests.component.controller.fake_engine import FakeEngine, joined, running_engine
from tests.component.controller.mesh import (
    PATIENCE_S,
    controller_config,
    decisions,
    eventually,
    serving,
    status,
)

Watching: TypeAlias = "grpc.aio.UnaryStreamCall[engines_pb2.WatchEnginesRequest, engines_pb2.WatchEnginesResponse]"


def _watch(channel: grpc.aio.Channel, router_id: str = "router-1") -> Watching:
    return engines_pb2_grpc.EngineTableServiceStub(channel).WatchEngines(engines_pb2.WatchEnginesRequest(router_id=router_id))


async def _next(watch: Watching) -> engines_pb2.WatchEnginesResponse:
    async with asyncio.timeout(PATIENCE_S):
        message = await watch.read()
    assert isinstance(message, engines_pb2.WatchEnginesResponse)
    return message


async def _until_engines(watch: Watching, names: list[str]) -> engines_pb2.WatchEnginesResponse:
    while True:
        message = await _next(watch)
        if [engine.descriptor.engine_id for engine in message.engines] == names:
            return message


def test_watch_engines_registered_engine_is_in_the_next_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        # Only a change can bring the second message within the test's patience.
        config = controller_config(tmp_path, table={"load_interval_ms": 10_000})
        async with serving(config) as (controller, channel), running_engine() as engine:
            watch = _watch(channel)
            first = await _next(watch)
            assert not first.engines
            await registry_pb2_grpc.RegistryServiceStub(channel).Register(engine.register_request())
            second = await _next(watch)
            assert [row.descriptor for row in second.engines] == [engine.descriptor]
            assert second.version > first.version
            assert second.controller_epoch == controller.controller_epoch == 1
            watch.cancel()

    asyncio.run(scenario())


def test_watch_engines_running_engine_brings_its_snapshots(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel):
            watch = _watch(channel)
            while not (message := await _next(watch)).engines[0].HasField("snapshot"):
                pass
            sequence = message.engines[0].snapshot.sequence
            while (message := await _next(watch)).engines[0].snapshot.sequence <= sequence:
                pass
            assert message.engines[0].snapshot_age_ms < 1000
            watch.cancel()

    asyncio.run(scenario())


def test_watch_engines_state_from_telemetry_raises_the_version(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel) as engine:
            watch = _watch(channel)
            before = await _until_engines(watch, ["batch-1"])
            engine.state = engine_pb2.ENGINE_STATE_DRAINING
            while (message := await _next(watch)).engines[0].state != engine_pb2.ENGINE_STATE_DRAINING:
                pass
            assert message.version > before.version
            watch.cancel()

    asyncio.run(scenario())


def test_telemetry_of_an_engine_that_was_away_for_a_moment_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = controller_config(tmp_path, registry={"lease_s": 60, "renew_interval_s": 1})
        async with serving(config) as (_controller, channel), running_engine() as engine:
            await registry_pb2_grpc.RegistryServiceStub(channel).Register(engine.register_request())
            seen = await eventually(lambda: status(channel), lambda now: now.engines[0].HasField("snapshot"))
            address = engine.address
            await engine.stop()
            await engine.start(address)
            sequence = seen.engines[0].snapshot.sequence
            await eventually(
                lambda: status(channel),
                lambda now: engine.watches > 1 and now.engines[0].snapshot.sequence > sequence,
            )

    asyncio.run(scenario())


def test_telemetry_silent_stream_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.controller.observe.SILENCE_LIMIT_S", 0.1)

    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel, is_silent=True) as engine:
            await eventually(lambda: status(channel), lambda _: engine.watches > 1)
            assert not (await status(channel)).engines[0].HasField("snapshot")
            engine.is_silent = False
            await eventually(lambda: status(channel), lambda now: now.engines[0].HasField("snapshot"))

    asyncio.run(scenario())


def test_lease_not_renewed_drops_the_engine_though_its_telemetry_lives(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel), running_engine() as engine:
            await registry_pb2_grpc.RegistryServiceStub(channel).Register(engine.register_request())
            watch = _watch(channel)
            await _until_engines(watch, ["batch-1"])
            await _until_engines(watch, [])
            watch.cancel()

    asyncio.run(scenario())


def test_deregister_removes_the_engine_but_not_a_newer_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = controller_config(tmp_path, registry={"lease_s": 60, "renew_interval_s": 1})
        async with serving(config) as (_controller, channel), running_engine(epoch=5) as engine:
            stub = registry_pb2_grpc.RegistryServiceStub(channel)
            await stub.Register(engine.register_request())
            await stub.Deregister(registry_pb2.DeregisterRequest(engine_id="batch-1", epoch=4))
            assert len((await status(channel)).engines) == 1
            await stub.Deregister(registry_pb2.DeregisterRequest(engine_id="batch-1", epoch=5))
            assert not (await status(channel)).engines
            await stub.Deregister(registry_pb2.DeregisterRequest(engine_id="batch-1", epoch=5))

    asyncio.run(scenario())


def test_register_older_epoch_is_aborted(tmp_path: Path) -> None:
    async def scenario() -> Fault:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel, epoch=7) as engine:
            older = engine.register_request()
            older.descriptor.epoch = 6
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await registry_pb2_grpc.RegistryServiceStub(channel).Register(older)
            return read_fault(failure.value)

    fault = asyncio.run(scenario())
    assert (fault.code, fault.reason, fault.metadata["newest_epoch"]) == (grpc.StatusCode.ABORTED, "STALE_EPOCH", "7")


def test_law_room_to_grow_reaches_the_engine_and_the_journal(tmp_path: Path) -> None:
    async def scenario() -> tuple[FakeEngine, list[admin_pb2.Decision]]:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel) as engine:
            async with asyncio.timeout(PATIENCE_S):
                await engine.updated.wait()
            found = await eventually(lambda: decisions(channel, changes_only=True), lambda rows: len(rows) > 0)
            return engine, found

    engine, found = asyncio.run(scenario())
    first, update = found[-1], engine.updates[0]
    assert update.tuning.max_active_sequences == 24
    assert list(update.update_mask.paths) == ["max_active_sequences"]
    assert (update.controller_epoch, update.decision_id, update.lease.seconds) == (1, first.decision_id, 30)
    assert (first.before.max_active_sequences, first.after.max_active_sequences) == (16, 24)
    assert first.action == admin_pb2.DECISION_ACTION_GROW
    assert first.reason == admin_pb2.DECISION_REASON_ROOM_TO_GROW
    assert first.result == admin_pb2.ACTUATION_RESULT_APPLIED


def test_law_latency_over_slo_shrinks(tmp_path: Path) -> None:
    async def scenario() -> list[admin_pb2.Decision]:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel, p99_ms=250.0):
            return await eventually(lambda: decisions(channel, changes_only=True), lambda rows: len(rows) > 0)

    first = asyncio.run(scenario())[-1]
    assert (first.action, first.after.max_active_sequences) == (admin_pb2.DECISION_ACTION_SHRINK, 14)
    assert (first.p99_ms, first.slo_ms) == (250.0, 100.0)


def test_actuation_unreachable_tuning_service_is_journaled_as_failed_and_retried(tmp_path: Path) -> None:
    async def scenario() -> tuple[list[admin_pb2.Decision], FakeEngine]:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel, refusal=away) as engine:
            failed = await eventually(lambda: decisions(channel, changes_only=True), lambda rows: len(rows) > 0)
            engine.refusal = None
            async with asyncio.timeout(PATIENCE_S):
                await engine.updated.wait()
            return failed, engine

    away = Fault(code=grpc.StatusCode.UNAVAILABLE, reason="NO_ENGINE", message="away")
    failed, engine = asyncio.run(scenario())
    assert failed[-1].result == admin_pb2.ACTUATION_RESULT_FAILED
    assert failed[-1].error == "UNAVAILABLE NO_ENGINE: away"
    assert engine.updates[0].tuning.max_active_sequences >= 24


def test_actuation_engine_away_while_its_lease_holds_is_journaled_as_failed(tmp_path: Path) -> None:
    async def scenario() -> admin_pb2.Decision:
        config = controller_config(tmp_path, registry={"lease_s": 60, "renew_interval_s": 1})
        async with serving(config) as (_controller, channel):
            async with running_engine() as engine:
                request = engine.register_request()
            await registry_pb2_grpc.RegistryServiceStub(channel).Register(request)
            await admin_pb2_grpc.ControllerAdminServiceStub(channel).SetOverride(
                admin_pb2.SetOverrideRequest(
                    engine_id="batch-1",
                    tuning=tuning_pb2.Tuning(max_active_sequences=8),
                    ttl=duration_pb2.Duration(seconds=60),
                    reason="incident",
                )
            )
            return (await eventually(lambda: decisions(channel, changes_only=True), lambda rows: len(rows) > 0))[-1]

    decision = asyncio.run(scenario())
    assert (decision.action, decision.result) == (admin_pb2.DECISION_ACTION_OVERRIDE, admin_pb2.ACTUATION_RESULT_FAILED)
    assert decision.error.startswith("UNAVAILABLE")


def test_actuation_refused_for_a_newer_controller_leaves_the_engine_alone(tmp_path: Path) -> None:
    async def scenario() -> admin_pb2.Decision:
        async with (
            serving(controller_config(tmp_path)) as (_controller, channel),
            joined(channel, refusal=stale) as engine,
        ):
            seen = await eventually(
                lambda: status(channel),
                lambda now: now.engines[0].last_decision.reason == admin_pb2.DECISION_REASON_FENCED,
            )
            engine.refusal = None
            await eventually(
                lambda: status(channel),
                lambda now: now.engines[0].last_decision.decision_id != seen.engines[0].last_decision.decision_id,
            )
            assert engine.updates == []
            return seen.engines[0].last_decision

    stale = Fault(code=grpc.StatusCode.ABORTED, reason="STALE_EPOCH", message="epoch 9 leads")
    assert asyncio.run(scenario()).action == admin_pb2.DECISION_ACTION_HOLD


def test_engine_restart_with_a_new_epoch_gets_its_tuning_again(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, int]:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            async with joined(channel, epoch=1) as old:
                old.running = old.max_active_sequences
                async with asyncio.timeout(PATIENCE_S):
                    await old.updated.wait()
            async with joined(channel, epoch=2, running=0) as new:
                async with asyncio.timeout(PATIENCE_S):
                    await new.updated.wait()
                return old.max_active_sequences, new.updates[0].tuning.max_active_sequences

    held, given_again = asyncio.run(scenario())
    assert held == given_again


def test_status_watching_router_is_listed_until_it_leaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            watch = _watch(channel, "router-9")
            await _next(watch)
            assert list((await status(channel)).router_ids) == ["router-9"]
            watch.cancel()
            await eventually(lambda: status(channel), lambda now: not now.router_ids)

    asyncio.run(scenario())


def test_stop_open_watch_ends_cleanly_before_the_grace_period(tmp_path: Path) -> None:
    async def scenario() -> grpc.StatusCode:
        controller = await start(controller_config(tmp_path, drain_grace_s=600))
        async with grpc.aio.insecure_channel(controller.address) as channel:
            watch = _watch(channel)
            await _next(watch)
            async with asyncio.timeout(PATIENCE_S):
                await controller.stop()
                while await watch.read() is not grpc.aio.EOF:
                    pass
                return await watch.code()

    assert asyncio.run(scenario()) is grpc.StatusCode.OK
