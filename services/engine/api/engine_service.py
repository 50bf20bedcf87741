"""EngineService: the path of every answer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from opentelemetry.trace import Span
from twinlane.common.v1 import engine_pb2 as common_engine_pb2
from twinlane.common.v1 import generation_pb2
from twinlane.engine.v1 import engine_pb2, engine_pb2_grpc

from libs.core.clock import Clock
from libs.core.outcomes import Outcome
from libs.rpc.boundary import Context
from libs.rpc.deadlines import remaining_s
from libs.rpc.fault import FaultError
from libs.telemetry import names
from libs.telemetry.tracing import Tracing
from services.engine.api.validate import RequestRules, WireRequest, check
from services.engine.api.wire import FINISH_REASONS, descriptor_message
from services.engine.backend.base import Backend
from services.engine.domain import BackendLostError, BackendRequest, EngineState, Finish, TokenChunk
from services.engine.serving.errors import (
    CallError,
    DeadlineError,
    DeadlineStage,
    EngineLostError,
    NotServingError,
    PromptTooLongError,
)
from services.engine.serving.identity import IdentityCard
from services.engine.serving.ledger import CallLease, Ledger
from services.engine.serving.life import Life
from services.engine.serving.metrics import EngineMetrics


@dataclass(frozen=True, kw_only=True)
class EngineParts:
    """What the service works with. `vocabulary_size` is None where it is not known."""

    card: IdentityCard
    life: Life
    ledger: Ledger
    backend: Backend
    metrics: EngineMetrics
    tracing: Tracing
    clock: Clock
    vocabulary_size: int | None


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """A call under way: what was asked, its lease, and its chunks."""

    request: BackendRequest
    lease: CallLease
    chunks: AsyncGenerator[TokenChunk, None]


class EngineService(engine_pb2_grpc.EngineServiceServicer):
    """Serves requests while SERVING and refuses them otherwise."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts

    async def Generate(self, request: engine_pb2.GenerateRequest, context: Context) -> None:  # type: ignore[override]
        """Stream one answer: Started with the first token, a Delta for each step, Finished."""
        async with self._serve(request, context) as answer:
            async for chunk in answer.chunks:
                await self._send(answer, chunk, context)

    async def Complete(self, request: engine_pb2.CompleteRequest, context: Context) -> engine_pb2.CompleteResponse:
        """Answer in one message."""
        response = engine_pb2.CompleteResponse()
        texts: list[str] = []
        async with self._serve(request, context) as answer:
            async for chunk in answer.chunks:
                answer.lease.take(chunk)
                texts.append(chunk.text)
                response.token_ids.extend(chunk.token_ids)
                if chunk.finish is not None:
                    self._conclude(response, answer, chunk.finish)
        response.text = "".join(texts)
        return response

    async def GetEngine(self, _request: engine_pb2.GetEngineRequest, _context: Context) -> engine_pb2.GetEngineResponse:
        """Say what the engine is, in every state."""
        return engine_pb2.GetEngineResponse(
            descriptor=descriptor_message(self._parts.card.identity),
            state=common_engine_pb2.EngineState.ValueType(self._parts.life.state),
        )

    async def _send(self, answer: _Answer, chunk: TokenChunk, context: Context) -> None:
        lease = answer.lease
        is_first = lease.first_token_at_s is None
        lease.take(chunk)
        lease.writing = True
        if is_first:
            await context.write(self._started(answer, chunk))
        if chunk.token_ids or chunk.text:
            delta = engine_pb2.Delta(text=chunk.text, token_ids=chunk.token_ids)
            await context.write(engine_pb2.GenerateResponse(delta=delta))
            lease.tokens_sent += len(chunk.token_ids)
        if chunk.finish is not None:
            await context.write(engine_pb2.GenerateResponse(finished=_finished(answer, chunk.finish)))
        lease.writing = False

    def _started(self, answer: _Answer, chunk: TokenChunk) -> engine_pb2.GenerateResponse:
        return engine_pb2.GenerateResponse(
            started=engine_pb2.Started(
                request_id=answer.request.request_id,
                model=self._parts.card.identity.model,
                engine_id=self._parts.card.identity.engine_id,
                prompt_tokens=len(answer.request.token_ids),
                cached_tokens=chunk.cached_tokens,
            )
        )

    def _conclude(self, response: engine_pb2.CompleteResponse, answer: _Answer, finish: Finish) -> None:
        response.request_id = answer.request.request_id
        response.model = self._parts.card.identity.model
        response.engine_id = self._parts.card.identity.engine_id
        response.finish_reason = FINISH_REASONS[finish]
        response.usage.CopyFrom(_usage(answer))
        response.timings.CopyFrom(_timings(answer.lease))

    @asynccontextmanager
    async def _serve(self, request: WireRequest, context: Context) -> AsyncIterator[_Answer]:
        """Admit a request and hold its lease and its place in the backend for the life of the block."""
        parts = self._parts
        received_s = parts.clock.monotonic_s()
        with parts.tracing.call(names.SPAN_ENGINE_GENERATE, self._trace_context(context)) as (span, _):
            asked = self._admit(request, context)
            with parts.ledger.open(asked, received_s=received_s) as lease:
                async with _bounded(lease, context), aclosing(parts.backend.generate(asked)) as chunks:
                    yield _Answer(request=asked, lease=lease, chunks=chunks)
                    lease.outcome = Outcome.ANSWERED
                if parts.tracing.enabled:
                    self._describe(span, asked, lease)

    def _trace_context(self, context: Context) -> dict[str, str]:
        if not self._parts.tracing.enabled:
            return {}
        return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}

    def _admit(self, request: WireRequest, context: Context) -> BackendRequest:
        """Return the checked request; count what is refused. Raises FaultError, CallError."""
        try:
            asked = self._check(request, context)
        except (FaultError, CallError) as error:
            self._parts.metrics.count_refused(_refusal(error))
            raise
        return asked

    def _check(self, request: WireRequest, context: Context) -> BackendRequest:
        parts = self._parts
        state = parts.life.state
        if state is not EngineState.SERVING:
            raise NotServingError(state, lost=parts.life.facts.lost)
        identity = parts.card.identity
        rules = RequestRules(model=identity.model, limits=identity.limits, vocabulary_size=parts.vocabulary_size)
        asked = check(request, rules)
        parts.ledger.check_name(asked.request_id)
        if remaining_s(context) == 0:
            raise DeadlineError(DeadlineStage.ARRIVAL)
        return asked

    def _describe(self, span: Span, asked: BackendRequest, lease: CallLease) -> None:
        span.set_attributes(
            {
                names.ATTR_MODEL: self._parts.card.identity.model,
                names.ATTR_ENGINE: self._parts.card.identity.engine_id,
                names.ATTR_REQUEST_ID: asked.request_id,
                names.ATTR_LANE: asked.lane.name,
                names.ATTR_INPUT_TOKENS: len(asked.token_ids),
                names.ATTR_OUTPUT_TOKENS: lease.completion_tokens,
                names.ATTR_OUTCOME: lease.outcome,
            }
        )


@asynccontextmanager
async def _bounded(lease: CallLease, context: Context) -> AsyncIterator[None]:
    """Hold the block to the caller's deadline, and put the way it ended into the lease."""
    lease.outcome = Outcome.INTERNAL
    try:
        async with asyncio.timeout(remaining_s(context)) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        lease.outcome = Outcome.DEADLINE
        raise DeadlineError(DeadlineStage.QUEUE if lease.first_token_at_s is None else DeadlineStage.ANSWER) from None
    except BackendLostError as error:
        lease.outcome = Outcome.ENGINE_LOST
        raise EngineLostError(tokens_sent=lease.tokens_sent, cause=str(error)) from error
    except asyncio.CancelledError:
        # gRPC cancels the handler for the caller's cancel, a dropped connection and the deadline alike.
        lease.outcome = Outcome.DEADLINE if remaining_s(context) == 0 else Outcome.CANCELLED
        raise


def _refusal(error: FaultError | CallError) -> Outcome:
    match error:
        case NotServingError(state=EngineState.DRAINING):
            return Outcome.DRAINING
        case NotServingError(lost=True):
            return Outcome.ENGINE_LOST
        case NotServingError():
            return Outcome.NO_ENGINE
        case PromptTooLongError():
            return Outcome.PROMPT_TOO_LONG
        case DeadlineError():
            return Outcome.DEADLINE
        case _:
            return Outcome.INVALID


def _finished(answer: _Answer, finish: Finish) -> engine_pb2.Finished:
    return engine_pb2.Finished(finish_reason=FINISH_REASONS[finish], usage=_usage(answer), timings=_timings(answer.lease))


def _usage(answer: _Answer) -> generation_pb2.Usage:
    return generation_pb2.Usage(
        prompt_tokens=len(answer.request.token_ids),
        cached_tokens=answer.lease.cached_tokens,
        completion_tokens=answer.lease.completion_tokens,
    )


def _timings(lease: CallLease) -> generation_pb2.Timings:
    first_s = lease.last_token_at_s if lease.first_token_at_s is None else lease.first_token_at_s
    return generation_pb2.Timings(
        engine_first_token_ms=(first_s - lease.received_s) * 1000,
        engine_total_ms=(lease.last_token_at_s - lease.received_s) * 1000,
    )
