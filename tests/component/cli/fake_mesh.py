"""A fake router and controller on one loopback port, served from threads, so that commands may run their own event loop."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from twinlane.common.v1 import engine_pb2, generation_pb2, lane_pb2, tuning_pb2
from twinlane.controller.v1 import admin_pb2, admin_pb2_grpc
from twinlane.engine.v1 import telemetry_pb2
from twinlane.engine.v1 import tuning_pb2 as engine_tuning_pb2
from twinlane.engine.v1 import tuning_pb2_grpc as engine_tuning_pb2_grpc
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc
from twinlane.router.v1 import admin_pb2 as router_pb2
from twinlane.router.v1 import admin_pb2_grpc as router_pb2_grpc

from libs.rpc.fault import Fault, FieldViolation, invalid_argument, to_call_status

REFUSED_PROMPT = "too many"
NO_ROOM = Fault(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUEUE_FULL", message="the queue is full", retry_after_s=2)


class FakeInference(inference_pb2_grpc.InferenceServiceServicer):
    """Answers with three words; refuses an empty prompt as bad and REFUSED_PROMPT as too much."""

    def Generate(self, request: inference_pb2.GenerateRequest, context: Any) -> Iterator[inference_pb2.GenerateResponse]:
        text = request.chat.messages[-1].content if request.HasField("chat") else request.prompt
        if not text:
            fault = invalid_argument("EMPTY_PROMPT", FieldViolation("prompt", "must not be empty"))
            context.abort_with_status(to_call_status(fault))
        if text == REFUSED_PROMPT:
            context.abort_with_status(to_call_status(NO_ROOM))
        yield inference_pb2.GenerateResponse(
            started=inference_pb2.Started(engine_id="realtime-1", lane=request.lane, prompt_tokens=3)
        )
        for word in ("Paris ", "is ", "it."):
            yield inference_pb2.GenerateResponse(delta=inference_pb2.Delta(text=word, token_ids=[7]))
        yield inference_pb2.GenerateResponse(
            finished=inference_pb2.Finished(
                finish_reason=generation_pb2.FINISH_REASON_STOP,
                usage=generation_pb2.Usage(prompt_tokens=3, completion_tokens=3),
                timings=generation_pb2.Timings(engine_first_token_ms=5, router_total_ms=9),
                attempts=1,
            )
        )

    def Complete(self, request: inference_pb2.CompleteRequest, _context: Any) -> inference_pb2.CompleteResponse:
        return inference_pb2.CompleteResponse(request_id=request.request_id, text="Paris is it.")


class FakeController(admin_pb2_grpc.ControllerAdminServiceServicer):
    """One engine, one decision; remembers what it was ordered."""

    def __init__(self) -> None:
        self.address = ""
        self.orders: list[Any] = []

    def GetStatus(self, _request: admin_pb2.GetStatusRequest, _context: Any) -> admin_pb2.GetStatusResponse:
        snapshot = telemetry_pb2.EngineSnapshot(
            lanes=[telemetry_pb2.LaneSnapshot(lane=lane_pb2.LANE_REALTIME, waiting=1, running=2)],
            tuning=tuning_pb2.Tuning(max_active_sequences=16, max_batched_tokens=512),
        )
        engine = admin_pb2.EngineStatus(
            descriptor=engine_pb2.EngineDescriptor(engine_id="realtime-1", address=self.address),
            state=engine_pb2.ENGINE_STATE_SERVING,
            snapshot=snapshot,
        )
        return admin_pb2.GetStatusResponse(controller_id="c-1", engines=[engine], router_ids=["router-1"])

    def ListDecisions(self, _request: admin_pb2.ListDecisionsRequest, _context: Any) -> admin_pb2.ListDecisionsResponse:
        decision = admin_pb2.Decision(
            engine_id="realtime-1",
            action=admin_pb2.DECISION_ACTION_SHRINK,
            explanation="P99 120 ms is over 100 ms",
            before=tuning_pb2.Tuning(max_active_sequences=16),
            after=tuning_pb2.Tuning(max_active_sequences=14),
            decided_at=Timestamp(seconds=60),
        )
        return admin_pb2.ListDecisionsResponse(decisions=[decision])

    def Pause(self, request: admin_pb2.PauseRequest, _context: Any) -> admin_pb2.PauseResponse:
        self.orders.append(request)
        return admin_pb2.PauseResponse(paused=True)

    def Resume(self, request: admin_pb2.ResumeRequest, _context: Any) -> admin_pb2.ResumeResponse:
        self.orders.append(request)
        return admin_pb2.ResumeResponse(paused=False)

    def ClearOverride(self, request: admin_pb2.ClearOverrideRequest, _context: Any) -> admin_pb2.ClearOverrideResponse:
        self.orders.append(request)
        return admin_pb2.ClearOverrideResponse(cleared=True)

    def SetOverride(self, request: admin_pb2.SetOverrideRequest, _context: Any) -> admin_pb2.SetOverrideResponse:
        self.orders.append(request)
        held = admin_pb2.Override(engine_id=request.engine_id, tuning=request.tuning, expire_time=Timestamp(seconds=600))
        return admin_pb2.SetOverrideResponse(override=held)


class FakeTuning(engine_tuning_pb2_grpc.TuningServiceServicer):
    """An engine with four requests left to drain."""

    def Drain(self, _request: engine_tuning_pb2.DrainRequest, _context: Any) -> engine_tuning_pb2.DrainResponse:
        return engine_tuning_pb2.DrainResponse(state=engine_pb2.ENGINE_STATE_DRAINING, remaining_requests=4)

    def Undrain(self, _request: engine_tuning_pb2.UndrainRequest, _context: Any) -> engine_tuning_pb2.UndrainResponse:
        return engine_tuning_pb2.UndrainResponse(state=engine_pb2.ENGINE_STATE_SERVING)

    def GetTuning(self, _request: engine_tuning_pb2.GetTuningRequest, _context: Any) -> engine_tuning_pb2.GetTuningResponse:
        return engine_tuning_pb2.GetTuningResponse(controller_epoch=1)

    def UpdateTuning(
        self, request: engine_tuning_pb2.UpdateTuningRequest, _context: Any
    ) -> engine_tuning_pb2.UpdateTuningResponse:
        return engine_tuning_pb2.UpdateTuningResponse(applied=request.tuning)


class FakeRouter(router_pb2_grpc.RouterAdminServiceServicer):
    """A router with one lane in use."""

    def GetStatus(self, _request: router_pb2.GetStatusRequest, _context: Any) -> router_pb2.GetStatusResponse:
        lane = router_pb2.LaneStatus(lane=lane_pb2.LANE_REALTIME, in_flight=3, answered_total=41, failed_total=1)
        return router_pb2.GetStatusResponse(router_id="router-1", table_source=router_pb2.TABLE_SOURCE_CONTROLLER, lanes=[lane])


@contextmanager
def fake_mesh() -> Iterator[FakeController]:
    """Serve all fakes on one free port; the address is in the controller's `address`."""
    controller = FakeController()
    with ThreadPoolExecutor(max_workers=4) as pool:
        server = grpc.server(pool)
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(FakeInference(), server)
        admin_pb2_grpc.add_ControllerAdminServiceServicer_to_server(controller, server)
        engine_tuning_pb2_grpc.add_TuningServiceServicer_to_server(FakeTuning(), server)
        router_pb2_grpc.add_RouterAdminServiceServicer_to_server(FakeRouter(), server)
        controller.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield controller
        finally:
            server.stop(None).wait()
