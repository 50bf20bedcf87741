"""The configuration files of a mesh on one machine, made from its plan."""

from cli.mesh.model import MODEL_NAME
from cli.mesh.plan import EngineKind, EnginePlan, MeshPlan, Profile, ServiceKind
from cli.mesh.toml import TomlTable, to_toml

# A CPU core needs about half a second for a ticket; a simulated engine needs milliseconds.
_SLO_MS = {EngineKind.VLLM: 1500.0, EngineKind.SIM: 100.0}
# Tickets are about 100 tokens, documents up to 2,000.
_CONTEXT_TOKENS = {Profile.REALTIME: 1024, Profile.BATCH: 4096}
_MAX_SEQUENCES = {Profile.REALTIME: 16, Profile.BATCH: 16}
_MAX_BATCHED_TOKENS = {Profile.REALTIME: 1024, Profile.BATCH: 2048}
# A step of 128 prompt tokens stays under a second on one core; controller and operators may go up to the limit.
_TUNED_SEQUENCES = {Profile.REALTIME: 16, Profile.BATCH: 8}
_TUNED_BATCHED_TOKENS = {Profile.REALTIME: 512, Profile.BATCH: 128}
_KV_CACHE_GIB = 1.0
# `up` starts a dead router again within a second: what it held should not wait for long.
_BATCH_LEASE_S = 5.0
# Requests of 50 tokens before an engine serves. The hundred of the default would take a CPU core most of a minute.
_WARM_UP_REQUESTS = {EngineKind.VLLM: 20, EngineKind.SIM: 100}
# Running answers get this long after Ctrl-C; below the time after which `up` kills.
_DRAIN_GRACE_S = {ServiceKind.ROUTER: 5.0, ServiceKind.ENGINE: 8.0}
# Step times of a small model on a GPU, in milliseconds: a ticket takes about 20, a document about a second.
_SIM = {"base_step_ms": 2.0, "prefill_token_ms": 0.02, "decode_ms": 0.2}


def write_configs(plan: MeshPlan) -> None:
    """Write the file of every service."""
    plan.run.mkdir(parents=True, exist_ok=True)
    plan.controller.config_file.write_text(to_toml(controller_table(plan)), encoding="utf-8")
    plan.router.config_file.write_text(to_toml(router_table(plan)), encoding="utf-8")
    for engine in plan.engines:
        engine.service.config_file.write_text(to_toml(engine_table(plan, engine)), encoding="utf-8")


def controller_table(plan: MeshPlan) -> TomlTable:
    """Return the controller's configuration."""
    return {
        "service": "controller",
        "controller_id": "controller-1",
        "address": plan.controller.address,
        "metrics_address": plan.controller.metrics_address,
        "journal": {"url": f"sqlite:///{plan.run / 'controller.db'}"},
        "slo": {"realtime_p99_ms": _SLO_MS[plan.backend]},
    }


def engine_table(plan: MeshPlan, engine: EnginePlan) -> TomlTable:
    """Return an engine's configuration."""
    profile = engine.profile
    common: TomlTable = {
        "service": "engine",
        "engine_id": engine.service.name,
        "pool": str(profile),
        "profile": str(profile),
        "address": engine.service.address,
        "metrics_address": engine.service.metrics_address,
        "drain_grace_s": _DRAIN_GRACE_S[ServiceKind.ENGINE],
        "model": {"name": MODEL_NAME, "folder": plan.model_folder},
        "backend": {"kind": str(plan.backend)},
        "limits": {
            "max_context_tokens": _CONTEXT_TOKENS[profile],
            "max_active_sequences": _MAX_SEQUENCES[profile],
            "max_batched_tokens": _MAX_BATCHED_TOKENS[profile],
            "kv_cache_gib": _KV_CACHE_GIB,
        },
        "tuning": {
            "max_active_sequences": _TUNED_SEQUENCES[profile],
            "max_batched_tokens": _TUNED_BATCHED_TOKENS[profile],
        },
        "partition": {"kind": "cpu", "devices": tuple(str(core) for core in engine.cores)},
        "warm_up": {"requests": _WARM_UP_REQUESTS[plan.backend]},
        "controller": {"address": plan.controller.address},
    }
    return {**common, "sim": _SIM} if plan.backend is EngineKind.SIM else common


def router_table(plan: MeshPlan) -> TomlTable:
    """Return the router's configuration; its static engines are for the time before the controller's first table."""
    return {
        "service": "router",
        "router_id": "router-1",
        "address": plan.router.address,
        "metrics_address": plan.router.metrics_address,
        "drain_grace_s": _DRAIN_GRACE_S[ServiceKind.ROUTER],
        "log": {"format": "text"},
        "model": {"name": MODEL_NAME, "tokenizer": "sim" if plan.backend is EngineKind.SIM else plan.model_folder},
        "controller": {"address": plan.controller.address},
        "batch": {
            "ledger": f"sqlite:///{plan.batch / 'ledger.db'}",
            "store": plan.batch / "objects",
            "lease_s": _BATCH_LEASE_S,
        },
        "static_engines": [_static_engine(engine) for engine in plan.engines],
    }


def _static_engine(engine: EnginePlan) -> TomlTable:
    return {
        "engine_id": engine.service.name,
        "address": engine.service.address,
        "pool": str(engine.profile),
        "max_context_tokens": _CONTEXT_TOKENS[engine.profile],
    }
