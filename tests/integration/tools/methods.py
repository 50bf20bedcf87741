"""Every method of every service of the mesh, with a request that must be answered and a word of the answer."""

from dataclasses import dataclass

MODEL = "smollm2-135m"
CHAT = '"chat":{"messages":[{"role":"user","content":"Hello"}]}'
_MASK = '"update_mask":"maxActiveSequences"'
_LONG_MASK = '"update_mask":{"paths":["max_active_sequences"]}'
STOPPING = '"stopping":{"max_new_tokens":4}'


@dataclass(frozen=True, kw_only=True)
class Method:
    """One call: who serves it, its full name, its request, what the answer holds, and whether the stream never ends."""

    part: str
    service: str
    name: str
    request: str
    expected: str
    endless: bool = False

    @property
    def grpcurl_request(self) -> str:
        """The request as grpcurl 1.8.6 reads it: it knows no short form of field masks."""
        return self.request.replace(_MASK, _LONG_MASK)

    @property
    def path(self) -> str:
        return f"{self.service}/{self.name}"


def _method(part: str, service: str, name: str, request: str, expected: str, *, endless: bool = False) -> Method:
    return Method(part=part, service=service, name=name, request=request, expected=expected, endless=endless)


_INFERENCE = "twinlane.inference.v1.InferenceService"
_BATCH = "twinlane.batch.v1.BatchService"
_ENGINE = "twinlane.engine.v1.EngineService"
_TELEMETRY = "twinlane.engine.v1.TelemetryService"
_TUNING = "twinlane.engine.v1.TuningService"
_REGISTRY = "twinlane.controller.v1.RegistryService"
_TABLE = "twinlane.controller.v1.EngineTableService"
_ROUTER_ADMIN = "twinlane.router.v1.RouterAdminService"
_CONTROLLER_ADMIN = "twinlane.controller.v1.ControllerAdminService"
_HEALTH = "grpc.health.v1.Health"

_GUEST = (
    '{"descriptor":{"engine_id":"guest","epoch":"1","address":"127.0.0.1:9","pool":"guest",'
    '"model":"m","backend":"sim","limits":{"max_context_tokens":512,"max_active_sequences":1,"max_batched_tokens":16}},"state":1}'
)
_TOKENS = f'{{"request_id":"tools-%s","model":"{MODEL}","token_ids":[1,2,3],"lane":1,{STOPPING}}}'

# A stream of two messages; the lines are {"custom_id":"a","request":{"prompt":"hello"}} in base64.
_JOB = '{"spec":{"idempotency_key":"tools"}} {"lines":"eyJjdXN0b21faWQiOiJhIiwicmVxdWVzdCI6eyJwcm9tcHQiOiJoZWxsbyJ9fQ=="}'

METHODS = (
    _method("router", _INFERENCE, "Generate", f"{{{CHAT},{STOPPING}}}", "finished"),
    _method("router", _INFERENCE, "Complete", f"{{{CHAT},{STOPPING}}}", "text"),
    _method("router", _ROUTER_ADMIN, "GetStatus", "{}", "realtime-1"),
    _method("router", _BATCH, "SubmitJob", _JOB, "tools"),
    _method("router", _BATCH, "ListJobs", "{}", "{"),
    _method("router", _HEALTH, "Check", "{}", "SERVING"),
    _method("realtime-1", _ENGINE, "Generate", _TOKENS % "generate", "finished"),
    _method("realtime-1", _ENGINE, "Complete", _TOKENS % "complete", "text"),
    _method("realtime-1", _ENGINE, "GetEngine", "{}", "realtime-1"),
    _method("realtime-1", _TELEMETRY, "Watch", "{}", "snapshot", endless=True),
    _method("realtime-1", _TUNING, "GetTuning", "{}", "configured"),
    _method(
        "batch-1",
        _TUNING,
        "UpdateTuning",
        f'{{"tuning":{{"max_active_sequences":4}},{_MASK},"controller_epoch":"99","lease":"1s"}}',
        "applied",
    ),
    _method("batch-1", _TUNING, "Drain", '{"reason":"tools test"}', "DRAINING"),
    _method("batch-1", _TUNING, "Undrain", '{"reason":"tools test"}', "SERVING"),
    _method("batch-1", _HEALTH, "Check", "{}", "SERVING"),
    _method("controller", _REGISTRY, "Register", _GUEST, "lease"),
    _method("controller", _REGISTRY, "Deregister", '{"engine_id":"guest","epoch":"1"}', "{"),
    _method("controller", _TABLE, "WatchEngines", '{"router_id":"tools"}', "realtime-1", endless=True),
    _method("controller", _CONTROLLER_ADMIN, "GetStatus", "{}", "realtime-1"),
    _method("controller", _CONTROLLER_ADMIN, "ListDecisions", "{}", "{"),
    _method("controller", _CONTROLLER_ADMIN, "Pause", '{"reason":"tools test"}', "paused"),
    _method("controller", _CONTROLLER_ADMIN, "Resume", '{"reason":"tools test"}', "{"),
    _method(
        "controller",
        _CONTROLLER_ADMIN,
        "SetOverride",
        '{"engine_id":"realtime-1","tuning":{"max_active_sequences":8},"ttl":"60s","reason":"tools test"}',
        "override",
    ),
    _method("controller", _CONTROLLER_ADMIN, "ClearOverride", '{"engine_id":"realtime-1","reason":"tools test"}', "cleared"),
    _method("controller", _HEALTH, "Check", "{}", "SERVING"),
)
SERVICES = sorted({(method.part, method.service) for method in METHODS})
