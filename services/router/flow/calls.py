"""A caller's request on its way to an engine and back. The layers, in order:

    door → deadline → identity and checks → tokens → lane → pick → call → settle

Each is a function of its own module or method; `Calls` puts them in a row.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import grpc
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import Clock
from libs.core.ids import IdSource
from libs.core.lanes import Lane
from libs.telemetry import names
from libs.telemetry.tracing import Tracing
from libs.tokens.tokenizer import Tokenizer
from services.router.config import RouterConfig
from services.router.domain import (
    AllDrainingError,
    DeadlineError,
    DeadlineKind,
    EngineLostError,
    Identity,
    Need,
    NoEngineError,
    PromptTooLongError,
    TooManyNewTokensError,
)
from services.router.engines.slot import Lease
from services.router.engines.table import EngineTable
from services.router.flow.answer_bytes import (
    EventTag,
    SentDeltas,
    with_complete_fields,
    with_finished_fields,
    with_started_fields,
)
from services.router.flow.checks import Request, RequestRules, check_call, check_request
from services.router.flow.door import Door
from services.router.flow.engine_errors import judge
from services.router.flow.engine_request import bound_salt, engine_request
from services.router.flow.identity import to_mapping
from services.router.flow.measure import Call, Measures
from services.router.flow.prompt import tokenise
from services.router.policy.engine_choice import Refusal, Refused, filter_engines, pick
from services.router.policy.lane_rule import LaneRule, decide_lane

Context = Any


class Calls:
    """Runs callers' requests. Holds no state of a single call."""

    def __init__(
        self,
        config: RouterConfig,
        *,
        door: Door,
        table: EngineTable,
        tokenizer: Tokenizer,
        measures: Measures,
        tracing: Tracing,
        clock: Clock,
        ids: IdSource,
        random: Random,
    ) -> None:
        self._config = config
        self._door = door
        self._table = table
        self._tokenizer = tokenizer
        self._measures = measures
        self._tracing = tracing
        self._clock = clock
        self._ids = ids
        self._random = random
        self._rule = LaneRule(batch_prompt_tokens=config.lane_rule.batch_prompt_tokens)
        self._rules = RequestRules(model=config.model.name, vocabulary_size=tokenizer.vocabulary_size)

    async def complete(self, request: Request, context: Context) -> bytes:
        """Return the serialized CompleteResponse. Raises RouterError or FaultError."""
        with self._measures.measured(self._clock) as call, self._door.passed():
            metadata = to_mapping(context.invocation_metadata())
            with self._tracing.call(names.SPAN_ROUTER_GENERATE, metadata) as (_, onward):
                wire = await self._admit(request, context, call, metadata, streamed=False)
                return await self._complete(call, wire, tuple(onward.items()))

    async def generate(self, request: Request, context: Context) -> None:
        """Write the serialized GenerateResponses to the context. Raises RouterError or FaultError."""
        with self._measures.measured(self._clock) as call, self._door.passed():
            metadata = to_mapping(context.invocation_metadata())
            with self._tracing.call(names.SPAN_ROUTER_GENERATE, metadata) as (_, onward):
                wire = await self._admit(request, context, call, metadata, streamed=True)
                await self._generate(call, wire, tuple(onward.items()), context)

    async def run_batch(
        self, request: inference_pb2.CompleteRequest, *, tenant: str, deadline_s: float
    ) -> inference_pb2.CompleteResponse:
        """Run a request of the batch lane in this process, within `deadline_s`. Raises RouterError or FaultError."""
        with self._measures.measured(self._clock) as call, self._door.passed():
            identity = Identity(tenant=tenant, request_type=Lane.BATCH, low_priority=True, low_latency=False)
            asked = check_request(request, self._rules)
            wire = await self._prepare(request, call, identity, asked, left_s=deadline_s, streamed=False)
            return inference_pb2.CompleteResponse.FromString(await self._complete(call, wire, ()))

    def check(self, request: Request) -> None:
        """Say whether a request would be refused whatever the engines do. Raises FaultError."""
        check_request(request, self._rules)

    async def _admit(
        self, request: Request, context: Context, call: Call, metadata: dict[str, str], *, streamed: bool
    ) -> bytes:
        """First layers of a call by gRPC: deadline, identity, checks."""
        left_s = context.time_remaining()
        identity, asked = check_call(request, metadata, self._rules)
        return await self._prepare(request, call, identity, asked, left_s=left_s, streamed=streamed)

    async def _prepare(
        self, request: Request, call: Call, identity: Identity, asked: Lane | None, *, left_s: float | None, streamed: bool
    ) -> bytes:
        """Layers up to the lane; returns the engine's request. What is left of the deadline is in the call."""
        if left_s is not None and left_s <= 0:
            raise DeadlineError(DeadlineKind.HOPELESS)
        token_ids = await tokenise(request, self._tokenizer)
        decision = decide_lane(self._rule, asked=asked, identity=identity, prompt_tokens=len(token_ids))
        lane_config = self._config.lanes.of(decision.lane)
        call.placed(decision.lane, prompt_tokens=len(token_ids))
        call.deadline_s = call.received_s + (lane_config.default_deadline_s if left_s is None else left_s)
        call.request_id = request.request_id or self._ids.next("req")
        call.need = _need(request, token_ids)
        return engine_request(
            request,
            # Callers may use a name twice; engines may not.
            request_id=self._ids.next("call"),
            model=self._rules.model,
            token_ids=token_ids,
            cache_salt=bound_salt(identity.tenant, request.kv.cache_salt),
            lane=decision.lane,
            streamed=streamed,
        )

    def _pick(self, call: Call, failed: Mapping[str, Exception]) -> Lease:
        """Layer: a place on the engine with the least predicted wait. Engines that failed this call are left out; where no
        other is left, the last failure is the call's."""
        pools = self._config.lanes.of(call.lane).pools
        views = self._table.views()
        untried = [view for view in views if view.engine_id not in failed] if failed else views
        found = filter_engines(untried, lane=call.lane, pools=pools, need=call.need)
        if isinstance(found, Refused):
            raise list(failed.values())[-1] if failed else _refusal(found, call.lane, pools, call.need)
        chosen = pick(found.engines, tie=self._random.random())
        return self._table.take(chosen.engine_id, call.need.prompt_tokens)

    def _left_s(self, call: Call) -> float:
        left_s = call.deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise DeadlineError(DeadlineKind.IN_QUEUE)
        return left_s

    async def _complete(self, call: Call, wire: bytes, onward: tuple[tuple[str, str], ...]) -> bytes:
        failed: dict[str, Exception] = {}
        while True:
            lease = self._pick(call, failed)
            try:
                call.attempt(self._clock.monotonic_s())
                raw: bytes = await lease.slot.client.complete(wire, timeout=self._left_s(call), metadata=onward)
            except grpc.aio.AioRpcError as error:
                self._after_failure(error, lease, call, failed, tokens_sent=0, started=False)
            else:
                now_s = self._clock.monotonic_s()
                call.first_token(now_s)
                return with_complete_fields(
                    raw,
                    request_id=call.request_id,
                    lane=call.lane,
                    attempts=call.attempts,
                    queue_ms=call.queue_ms,
                    total_ms=call.elapsed_ms(now_s),
                )
            finally:
                self._table.release(lease)

    async def _generate(self, call: Call, wire: bytes, onward: tuple[tuple[str, str], ...], context: Context) -> None:
        failed: dict[str, Exception] = {}
        while True:
            lease = self._pick(call, failed)
            sent = SentDeltas()
            try:
                await self._stream(call, wire, onward, context, lease, sent)
            except grpc.aio.AioRpcError as error:
                started = call.first_token_s is not None
                self._after_failure(error, lease, call, failed, tokens_sent=sent.tokens(), started=started)
            else:
                return
            finally:
                self._table.release(lease)

    async def _stream(
        self, call: Call, wire: bytes, onward: tuple[tuple[str, str], ...], context: Context, lease: Lease, sent: SentDeltas
    ) -> None:
        """Call one engine and hand its answer on; on every way out its work has ended or is cancelled."""
        call.attempt(self._clock.monotonic_s())
        stream = lease.slot.client.generate(wire, timeout=self._left_s(call), metadata=onward)
        try:
            finished = await self._pass_on(stream, call, lease, context, sent)
        finally:
            stream.cancel()
        if not finished:
            # A status of OK does not make half an answer a whole one.
            raise EngineLostError(engine_id=lease.slot_id, tokens_sent=sent.tokens(), started=call.first_token_s is not None)

    async def _pass_on(self, stream: Any, call: Call, lease: Lease, context: Context, sent: SentDeltas) -> bool:
        """Hand each event on as it comes; Started and Finished get the router's fields, all else is not touched. Returns
        whether Finished came."""
        finished = False
        while (raw := await stream.read()) is not grpc.aio.EOF:
            tag = raw[0] if raw else None
            if tag == EventTag.DELTA:
                sent.add(raw)
            elif tag == EventTag.STARTED:
                lease.first_token()
                call.first_token(self._clock.monotonic_s())
                raw = with_started_fields(raw, request_id=call.request_id, lane=call.lane, queue_ms=call.queue_ms)
            elif tag == EventTag.FINISHED:
                finished = True
                total_ms = call.elapsed_ms(self._clock.monotonic_s())
                raw = with_finished_fields(raw, attempts=call.attempts, queue_ms=call.queue_ms, total_ms=total_ms)
            await context.write(raw)
        return finished

    def _after_failure(
        self,
        error: grpc.aio.AioRpcError,
        lease: Lease,
        call: Call,
        failed: dict[str, Exception],
        *,
        tokens_sent: int,
        started: bool,
    ) -> None:
        """Return where another engine is to be tried; raise what the caller gets else."""
        failure = judge(error, engine_id=lease.slot_id, tokens_sent=tokens_sent, started=started)
        if failure.suspect:
            self._table.suspect(lease.slot)
        if started or not failure.elsewhere or call.attempts >= self._config.retry.max_attempts:
            raise failure.error from error
        failed[lease.slot_id] = failure.error


def _need(request: Request, token_ids: Sequence[int]) -> Need:
    stopping = request.stopping
    new_tokens = stopping.max_new_tokens if stopping.HasField("max_new_tokens") else 1
    return Need(prompt_tokens=len(token_ids), new_tokens=new_tokens)


def _refusal(refused: Refused, lane: Lane, pools: tuple[str, ...], need: Need) -> Exception:
    """Why no engine can take the request."""
    limit = refused.max_context_tokens
    match refused.refusal:
        case Refusal.NO_ENGINE:
            return NoEngineError(lane, pools)
        case Refusal.ALL_DRAINING:
            return AllDrainingError(f"every engine of the {lane.name.lower()} lane is draining")
        case Refusal.TOO_LONG if need.prompt_tokens >= limit:
            return PromptTooLongError(prompt_tokens=need.prompt_tokens, limit_tokens=limit - 1)
        case Refusal.TOO_LONG:
            return TooManyNewTokensError(new_tokens=need.new_tokens, room_tokens=limit - need.prompt_tokens)
