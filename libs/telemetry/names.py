"""Every metric, span and attribute name of the mesh. Metrics follow Prometheus naming: base units, `_total` for counters."""

# Label names.
LANE = "lane"
OUTCOME = "outcome"
ENGINE = "engine_id"
POOL = "pool"
ACTION = "action"
REASON = "reason"
SOURCE = "source"

# Router.
ROUTER_REQUESTS = "twinlane_router_requests_total"
ROUTER_IN_FLIGHT = "twinlane_router_in_flight_requests"
ROUTER_FIRST_TOKEN_SECONDS = "twinlane_router_first_token_seconds"
ROUTER_REQUEST_SECONDS = "twinlane_router_request_seconds"
ROUTER_OVERHEAD_SECONDS = "twinlane_router_overhead_seconds"
ROUTER_PROMPT_TOKENS = "twinlane_router_prompt_tokens_total"
ROUTER_ENGINES = "twinlane_router_engines"
ROUTER_TABLE_SOURCE = "twinlane_router_table_source"

# Engine.
ENGINE_REQUESTS = "twinlane_engine_requests_total"
ENGINE_WAITING = "twinlane_engine_waiting_requests"
ENGINE_RUNNING = "twinlane_engine_running_requests"
ENGINE_FIRST_TOKEN_SECONDS = "twinlane_engine_first_token_seconds"
ENGINE_REQUEST_SECONDS = "twinlane_engine_request_seconds"
ENGINE_PROMPT_TOKENS = "twinlane_engine_prompt_tokens_total"
ENGINE_COMPLETION_TOKENS = "twinlane_engine_completion_tokens_total"
ENGINE_STEP_SECONDS = "twinlane_engine_step_seconds"
ENGINE_KV_USAGE_RATIO = "twinlane_engine_kv_usage_ratio"
ENGINE_STATE = "twinlane_engine_state"
ENGINE_MAX_ACTIVE_SEQUENCES = "twinlane_engine_max_active_sequences"
ENGINE_MAX_BATCHED_TOKENS = "twinlane_engine_max_batched_tokens"

# Controller.
CONTROLLER_ENGINES = "twinlane_controller_engines"
CONTROLLER_DECISIONS = "twinlane_controller_decisions_total"
CONTROLLER_ACTUATION_FAILURES = "twinlane_controller_actuation_failures_total"
CONTROLLER_TICK_SECONDS = "twinlane_controller_tick_seconds"
CONTROLLER_SNAPSHOT_AGE_SECONDS = "twinlane_controller_snapshot_age_seconds"
CONTROLLER_ROUTERS = "twinlane_controller_routers"
CONTROLLER_PAUSED = "twinlane_controller_paused"
CONTROLLER_FENCED_ENGINES = "twinlane_controller_fenced_engines"
CONTROLLER_JOURNAL_FAILURES = "twinlane_controller_journal_failures_total"
CONTROLLER_JOURNAL_DROPPED = "twinlane_controller_journal_dropped_total"

# Spans.
SPAN_ROUTER_GENERATE = "twinlane.router.generate"
SPAN_ENGINE_GENERATE = "twinlane.engine.generate"
SPAN_CONTROLLER_ACTUATE = "twinlane.controller.actuate"

# Span attributes: gen_ai.* and rpc.* of OpenTelemetry's semantic conventions where they have a word, else twinlane.*.
ATTR_MODEL = "gen_ai.request.model"
ATTR_INPUT_TOKENS = "gen_ai.usage.input_tokens"
ATTR_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ATTR_REQUEST_ID = "twinlane.request_id"
ATTR_LANE = "twinlane.lane"
ATTR_ENGINE = "twinlane.engine_id"
ATTR_OUTCOME = "twinlane.outcome"

# Seconds. From below a realtime answer's router overhead to a batch answer's whole life.
LATENCY_BUCKETS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
