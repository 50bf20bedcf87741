"""Between the client's plain types and the protos."""

from collections.abc import Sequence
from typing import TypeVar

from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2

from libs.client.events import (
    ChatMessage,
    Completion,
    Delta,
    Event,
    Finished,
    FinishReason,
    Prompt,
    RequestOptions,
    Started,
    Timings,
    TokenIds,
    Usage,
)
from libs.core.lanes import LANES, Lane
from libs.telemetry.tracing import current_trace_metadata

TENANT_KEY = "x-tenant"

RequestT = TypeVar("RequestT", inference_pb2.GenerateRequest, inference_pb2.CompleteRequest)


def to_request(request_type: type[RequestT], prompt: Prompt, options: RequestOptions) -> RequestT:
    """Return the request. Raises ValueError or TypeError where a value does not fit its field's wire type."""
    request = request_type(
        request_id=options.request_id,
        model=options.model,
        sampling=generation_pb2.Sampling(
            temperature=options.temperature, top_p=options.top_p, top_k=options.top_k, seed=options.seed
        ),
        stopping=generation_pb2.Stopping(
            max_new_tokens=options.max_new_tokens, stop=options.stop, ignore_eos=options.ignore_eos
        ),
        kv=generation_pb2.KvOptions(cache_salt=options.cache_salt),
        lane=lane_pb2.LANE_UNSPECIFIED if options.lane is None else lane_pb2.Lane.Value(f"LANE_{options.lane.name}"),
        priority=options.priority,
    )
    if isinstance(prompt, str):
        request.prompt = prompt
    elif isinstance(prompt, TokenIds):
        request.token_ids.CopyFrom(generation_pb2.TokenIds(ids=prompt.ids))
    else:
        request.chat.CopyFrom(_to_chat(prompt))
    return request


def to_metadata(options: RequestOptions) -> tuple[tuple[str, str], ...]:
    """Return the call's metadata: the caller's own, the tenant, and the caller's current trace."""
    merged = {**current_trace_metadata(), **options.metadata, TENANT_KEY: options.tenant}
    return tuple(merged.items())


def to_event(response: inference_pb2.GenerateResponse, *, retries: int) -> Event | None:
    """Return the event, or None for one that this version does not know."""
    match response.WhichOneof("event"):
        case "started":
            return _to_started(response.started)
        case "delta":
            return Delta(text=response.delta.text, token_ids=tuple(response.delta.token_ids))
        case "finished":
            finished = response.finished
            return Finished(
                finish_reason=_to_finish_reason(finished.finish_reason),
                usage=_to_usage(finished.usage),
                timings=_to_timings(finished.timings),
                attempts=finished.attempts,
                retries=retries,
            )
        case _:
            return None


def to_completion(response: inference_pb2.CompleteResponse, *, retries: int) -> Completion:
    """Return the answer."""
    return Completion(
        request_id=response.request_id,
        model=response.model,
        engine_id=response.engine_id,
        text=response.text,
        token_ids=tuple(response.token_ids),
        lane=_to_lane(response.lane),
        finish_reason=_to_finish_reason(response.finish_reason),
        usage=_to_usage(response.usage),
        timings=_to_timings(response.timings),
        attempts=response.attempts,
        retries=retries,
    )


def _to_chat(messages: Sequence[ChatMessage]) -> inference_pb2.Chat:
    return inference_pb2.Chat(
        messages=[inference_pb2.ChatMessage(role=message.role, content=message.content) for message in messages]
    )


def _to_started(started: inference_pb2.Started) -> Started:
    return Started(
        request_id=started.request_id,
        model=started.model,
        engine_id=started.engine_id,
        prompt_tokens=started.prompt_tokens,
        cached_tokens=started.cached_tokens,
        lane=_to_lane(started.lane),
        router_queue_ms=started.router_queue_ms,
    )


def _to_lane(lane: int) -> Lane | None:
    return Lane(lane) if lane in LANES else None


def _to_finish_reason(reason: int) -> FinishReason:
    """A reason that this version does not know yet counts as none."""
    return FinishReason(reason) if reason in FinishReason.__members__.values() else FinishReason.UNSPECIFIED


def _to_usage(usage: generation_pb2.Usage) -> Usage:
    return Usage(
        prompt_tokens=usage.prompt_tokens, cached_tokens=usage.cached_tokens, completion_tokens=usage.completion_tokens
    )


def _to_timings(timings: generation_pb2.Timings) -> Timings:
    return Timings(
        router_queue_ms=timings.router_queue_ms if timings.HasField("router_queue_ms") else None,
        engine_first_token_ms=timings.engine_first_token_ms,
        engine_total_ms=timings.engine_total_ms,
        router_total_ms=timings.router_total_ms if timings.HasField("router_total_ms") else None,
    )
