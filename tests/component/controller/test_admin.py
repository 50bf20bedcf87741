"""What operators can order, and what bad orders get."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2
from twinlane.common.v1 import tuning_pb2
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc, registry_pb2, registry_pb2_grpc

from libs.rpc.fault import Fault, read_fault
from tests.component.controller.fake_engine import MAX_ACTIVE_SEQUENCES, joined, running_engine
from tests.component.controller.mesh import (
    PATIENCE_S,
    controller_config,
    decisions,
    eventually,
    serving,
    status,
)


def _override(**changes: Any) -> admin_pb2.SetOverrideRequest:
    fields: dict[str, Any] = {
        "engine_id": "batch-1",
        "tuning": tuning_pb2.Tuning(max_active_sequences=8),
        "ttl": duration_pb2.Duration(seconds=60),
        "reason": "incident 7",
        **changes,
    }
    return admin_pb2.SetOverrideRequest(**{name: value for name, value in fields.items() if value is not None})


async def _refusal(folder: Path, call: Callable[[grpc.aio.Channel], Awaitable[object]]) -> Fault:
    async with serving(controller_config(folder)) as (_controller, channel), joined(channel):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call(channel)
        return read_fault(failure.value)


def test_pause_stops_the_law_and_resume_lets_it_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
            assert (await stub.Pause(admin_pb2.PauseRequest(reason="looking"))).paused
            async with joined(channel) as engine:
                seen = await eventually(
                    lambda: status(channel),
                    lambda now: now.engines[0].last_decision.reason == admin_pb2.DECISION_REASON_PAUSED,
                )
                assert (seen.paused, seen.pause_reason) == (True, "looking")
                assert engine.updates == []
                assert not (await stub.Resume(admin_pb2.ResumeRequest(reason="seen"))).paused
                async with asyncio.timeout(PATIENCE_S):
                    await engine.updated.wait()
                assert not (await status(channel)).paused

    asyncio.run(scenario())


def test_pause_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
            assert (await stub.Pause(admin_pb2.PauseRequest(reason="try", validate_only=True))).paused
            assert not (await status(channel)).paused

    asyncio.run(scenario())


def test_override_reaches_a_paused_engine_at_once_clamped_and_journaled(tmp_path: Path) -> None:
    async def scenario() -> None:
        # With a minute between ticks only the order itself can bring the next one.
        config = controller_config(tmp_path, loop={"tick_s": 60}, registry={"lease_s": 60, "renew_interval_s": 1})
        async with serving(config) as (_controller, channel), running_engine() as engine:
            stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
            await registry_pb2_grpc.RegistryServiceStub(channel).Register(engine.register_request())
            await stub.Pause(admin_pb2.PauseRequest(reason="incident 7"))
            answer = await stub.SetOverride(_override(tuning=tuning_pb2.Tuning(max_active_sequences=1000)))
            async with asyncio.timeout(PATIENCE_S):
                await engine.updated.wait()
            assert answer.override.tuning.max_active_sequences == MAX_ACTIVE_SEQUENCES
            assert engine.updates[0].tuning.max_active_sequences == MAX_ACTIVE_SEQUENCES
            assert engine.updates[0].decision_id == answer.decision_id
            found = await eventually(lambda: decisions(channel, changes_only=True), lambda rows: len(rows) > 0)
            assert found[0].decision_id == answer.decision_id
            assert found[0].action == admin_pb2.DECISION_ACTION_OVERRIDE
            assert (await status(channel)).engines[0].override == answer.override

    asyncio.run(scenario())


def test_override_expired_gives_batched_tokens_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel, pool="realtime") as engine:
            await eventually(lambda: status(channel), lambda now: now.engines[0].HasField("snapshot"))
            request = _override(tuning=tuning_pb2.Tuning(max_batched_tokens=64), ttl=duration_pb2.Duration(seconds=1))
            await admin_pb2_grpc.ControllerAdminServiceStub(channel).SetOverride(request)
            await eventually(lambda: status(channel), lambda now: not now.engines[0].HasField("override"))
            await eventually(lambda: status(channel), lambda _: len(engine.updates) > 1)
            assert [update.tuning.max_batched_tokens for update in engine.updates] == [64, 512]

    asyncio.run(scenario())


def test_override_cleared_lets_the_law_go_on_from_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
            await stub.Pause(admin_pb2.PauseRequest(reason="set up"))
            async with joined(channel) as engine:
                await stub.SetOverride(_override())
                await stub.Resume(admin_pb2.ResumeRequest(reason="set up"))
                await eventually(lambda: status(channel), lambda _: len(engine.updates) > 0)
                clear = admin_pb2.ClearOverrideRequest(engine_id="batch-1", reason="over")
                assert (await stub.ClearOverride(clear)).cleared
                await eventually(lambda: status(channel), lambda _: len(engine.updates) > 1)
                assert [update.tuning.max_active_sequences for update in engine.updates[:2]] == [8, 16]
                assert not (await stub.ClearOverride(clear)).cleared

    asyncio.run(scenario())


def test_override_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel), joined(channel):
            stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
            answer = await stub.SetOverride(_override(validate_only=True))
            assert (answer.override.tuning.max_active_sequences, answer.decision_id) == (8, "")
            assert not (await status(channel)).engines[0].HasField("override")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"engine_id": ""}, "engine_id", id="no engine"),
        pytest.param({"tuning": None}, "tuning", id="no tuning"),
        pytest.param({"tuning": tuning_pb2.Tuning(max_active_sequences=0)}, "tuning.max_active_sequences", id="zero"),
        pytest.param({"tuning": tuning_pb2.Tuning(max_batched_tokens=0)}, "tuning.max_batched_tokens", id="zero tokens"),
        pytest.param({"ttl": None}, "ttl", id="no ttl"),
        pytest.param({"ttl": duration_pb2.Duration(nanos=999_999_999)}, "ttl", id="ttl too short"),
        pytest.param({"ttl": duration_pb2.Duration(seconds=7 * 86_400 + 1)}, "ttl", id="ttl too long"),
        pytest.param({"ttl": duration_pb2.Duration(seconds=-5)}, "ttl", id="ttl negative"),
        pytest.param({"reason": " "}, "reason", id="no reason"),
    ],
)
def test_set_override_bad_field_is_named(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    fault = asyncio.run(
        _refusal(tmp_path, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).SetOverride(_override(**changes)))
    )
    assert fault.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in fault.violations] == [field]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda stub: stub.Pause(admin_pb2.PauseRequest()), id="Pause"),
        pytest.param(lambda stub: stub.Resume(admin_pb2.ResumeRequest()), id="Resume"),
        pytest.param(lambda stub: stub.ClearOverride(admin_pb2.ClearOverrideRequest(engine_id="x")), id="ClearOverride"),
    ],
)
def test_changing_call_without_reason_is_refused(tmp_path: Path, call: Callable[[Any], Awaitable[object]]) -> None:
    fault = asyncio.run(_refusal(tmp_path, lambda channel: call(admin_pb2_grpc.ControllerAdminServiceStub(channel))))
    assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REASON_REQUIRED")
    assert [violation.field for violation in fault.violations] == ["reason"]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda stub: stub.SetOverride(_override(engine_id="nobody")), id="SetOverride"),
        pytest.param(
            lambda stub: stub.ClearOverride(admin_pb2.ClearOverrideRequest(engine_id="nobody", reason="x")),
            id="ClearOverride",
        ),
    ],
)
def test_order_for_an_unknown_engine_is_not_found(tmp_path: Path, call: Callable[[Any], Awaitable[object]]) -> None:
    fault = asyncio.run(_refusal(tmp_path, lambda channel: call(admin_pb2_grpc.ControllerAdminServiceStub(channel))))
    assert (fault.code, fault.reason) == (grpc.StatusCode.NOT_FOUND, "ENGINE_UNKNOWN")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        pytest.param(admin_pb2.ListDecisionsRequest(page_size=1001), "INVALID_PAGE_SIZE", id="page size"),
        pytest.param(admin_pb2.ListDecisionsRequest(page_token="x"), "INVALID_PAGE_TOKEN", id="page token"),
        pytest.param(admin_pb2.ListDecisionsRequest(page_token="before-" + "9" * 40), "INVALID_PAGE_TOKEN", id="huge token"),
    ],
)
def test_list_decisions_bad_page_is_refused(tmp_path: Path, request_: admin_pb2.ListDecisionsRequest, reason: str) -> None:
    fault = asyncio.run(
        _refusal(tmp_path, lambda channel: admin_pb2_grpc.ControllerAdminServiceStub(channel).ListDecisions(request_))
    )
    assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)


def test_list_decisions_pages_give_every_row_once_newest_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            stub = admin_pb2_grpc.ControllerAdminServiceStub(channel)
            async with joined(channel) as engine:
                for sequences in (9, 10, 11):
                    engine.updated.clear()
                    await stub.SetOverride(_override(tuning=tuning_pb2.Tuning(max_active_sequences=sequences)))
                    async with asyncio.timeout(PATIENCE_S):
                        await engine.updated.wait()
                await eventually(
                    lambda: decisions(channel, engine_id="batch-1"),
                    lambda rows: rows[0].after.max_active_sequences == 11 if rows else False,
                )
                whole = await decisions(channel, changes_only=True)
                token, paged = "", list[str]()
                while True:
                    page = await stub.ListDecisions(
                        admin_pb2.ListDecisionsRequest(changes_only=True, page_size=2, page_token=token)
                    )
                    paged += [row.decision_id for row in page.decisions]
                    token = page.next_page_token
                    if not token:
                        break
                assert paged == [row.decision_id for row in whole]
                assert len(set(paged)) == len(paged) >= 3
                assert await decisions(channel, engine_id="other") == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        pytest.param("engine_id", "Batch_1", "descriptor.engine_id", id="name with other letters"),
        pytest.param("engine_id", "x" * 64, "descriptor.engine_id", id="name too long"),
        pytest.param("epoch", 0, "descriptor.epoch", id="no epoch"),
        pytest.param("address", "somewhere", "descriptor.address", id="address without port"),
        pytest.param("address", "host:0", "descriptor.address", id="port 0"),
        pytest.param("pool", "", "descriptor.pool", id="no pool"),
        pytest.param("model", "", "descriptor.model", id="no model"),
        pytest.param("limits.max_active_sequences", 0, "descriptor.limits.max_active_sequences", id="no sequences"),
        pytest.param("state", 0, "state", id="no state"),
    ],
)
def test_register_bad_field_is_named(tmp_path: Path, field: str, value: Any, path: str) -> None:
    async def scenario() -> Fault:
        async with serving(controller_config(tmp_path)) as (_controller, channel):
            async with running_engine() as engine:
                request: Any = engine.register_request()
            owner = request if field == "state" else request.descriptor
            *parents, name = field.split(".")
            for parent in parents:
                owner = getattr(owner, parent)
            setattr(owner, name, value)
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await registry_pb2_grpc.RegistryServiceStub(channel).Register(request)
            assert not (await status(channel)).engines
            return read_fault(failure.value)

    fault = asyncio.run(scenario())
    assert fault.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in fault.violations] == [path]


def test_register_empty_request_names_every_field(tmp_path: Path) -> None:
    fault = asyncio.run(
        _refusal(
            tmp_path, lambda channel: registry_pb2_grpc.RegistryServiceStub(channel).Register(registry_pb2.RegisterRequest())
        )
    )
    assert {"descriptor.engine_id", "descriptor.address", "state"} <= {violation.field for violation in fault.violations}
