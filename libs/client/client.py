"""The asynchronous client that other teams import.

    async with TwinlaneClient.connect("router:7000") as client:
        async for event in client.generate("Once upon a time", RequestOptions(max_new_tokens=32)):
            ...
        answer = await client.complete([ChatMessage(role="user", content="Hello")])

Calls raise the exceptions of libs/client/errors.py.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Self

import grpc
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc

from libs.client.errors import TwinlaneError, to_error
from libs.client.events import Completion, Delta, Event, Finished, Prompt, RequestOptions
from libs.client.retry import RetryBudget, RetryIn, RetryPolicy, decide
from libs.client.wire import to_completion, to_event, to_metadata, to_request
from libs.core.clock import Clock, SystemClock
from libs.rpc.address import split_address
from libs.rpc.channel import open_channel
from libs.rpc.fault import Fault, read_fault

# Answers are small; prompts may be whole documents. The server's own limit is what counts, and its refusal names it.
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_UNFINISHED = Fault(
    code=grpc.StatusCode.INTERNAL, reason="UNFINISHED_STREAM", message="the stream ended without its last message"
)
_DEFAULT_OPTIONS = RequestOptions()


@dataclass(kw_only=True)
class _Attempts:
    """Where one call stands."""

    deadline_s: float
    retries: int = 0


class TwinlaneClient:
    """Calls the InferenceService of one router over a channel that it owns. Used from one event loop; close it at the end."""

    def __init__(self, channel: grpc.aio.Channel, *, policy: RetryPolicy, clock: Clock, random: Random) -> None:
        self._channel = channel
        self._stub = inference_pb2_grpc.InferenceServiceStub(channel)
        self._policy = policy
        self._budget = RetryBudget()
        self._clock = clock
        self._random = random

    @classmethod
    def connect(
        cls, address: str, *, policy: RetryPolicy | None = None, clock: Clock | None = None, random: Random | None = None
    ) -> Self:
        """Return a client of the router at host:port. It connects at the first call and reconnects by itself. Raises
        ValueError for what is not host:port."""
        split_address(address)
        return cls(
            open_channel(address, max_message_bytes=_MAX_MESSAGE_BYTES),
            policy=policy or RetryPolicy(),
            clock=clock or SystemClock(),
            random=random or SystemRandom(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls still running are cancelled."""
        await self._channel.close()

    async def generate(self, prompt: Prompt, options: RequestOptions = _DEFAULT_OPTIONS) -> AsyncGenerator[Event, None]:
        """Yield Started, any number of Delta, and Finished. Closing the generator cancels the call; leave a loop early only
        inside contextlib.aclosing. Raises TwinlaneError, whose `partial_text` holds what had come."""
        request = to_request(inference_pb2.GenerateRequest, prompt, options)
        attempts = self._begin(options)
        while True:
            started, texts, finished = False, list[str](), False
            try:
                async with aclosing(self._stream(request, options, attempts)) as events:
                    async for event in events:
                        started = True
                        finished = isinstance(event, Finished)
                        if isinstance(event, Delta):
                            texts.append(event.text)
                        yield event
            except grpc.aio.AioRpcError as error:
                await self._retry_or_raise(error, attempts, partial_text="".join(texts), started=started)
                continue
            if not finished:
                raise to_error(_UNFINISHED, retries=attempts.retries, partial_text="".join(texts))
            return

    async def complete(self, prompt: Prompt, options: RequestOptions = _DEFAULT_OPTIONS) -> Completion:
        """Return the whole answer. Raises TwinlaneError."""
        request = to_request(inference_pb2.CompleteRequest, prompt, options)
        attempts = self._begin(options)
        while True:
            try:
                response = await self._stub.Complete(
                    request, timeout=self._remaining_s(attempts), metadata=to_metadata(options)
                )
            except grpc.aio.AioRpcError as error:
                await self._retry_or_raise(error, attempts, partial_text="", started=False)
                continue
            return to_completion(response, retries=attempts.retries)

    def _begin(self, options: RequestOptions) -> _Attempts:
        now_s = self._clock.monotonic_s()
        self._budget.count_call(now_s=now_s)
        return _Attempts(deadline_s=now_s + options.deadline_s)

    def _remaining_s(self, attempts: _Attempts) -> float:
        return max(0.0, attempts.deadline_s - self._clock.monotonic_s())

    async def _stream(
        self, request: inference_pb2.GenerateRequest, options: RequestOptions, attempts: _Attempts
    ) -> AsyncGenerator[Event, None]:
        call = self._stub.Generate(request, timeout=self._remaining_s(attempts), metadata=to_metadata(options))
        try:
            async for response in call:
                event = to_event(response, retries=attempts.retries)
                if event is not None:
                    yield event
        finally:
            call.cancel()

    async def _retry_or_raise(
        self, error: grpc.aio.AioRpcError, attempts: _Attempts, *, partial_text: str, started: bool
    ) -> None:
        """Return when the call is to be sent again; else raise the failure as a TwinlaneError."""
        fault = read_fault(error)
        failure = to_error(fault, retries=attempts.retries, partial_text=partial_text)
        if started:
            raise failure from error
        await self._wait_to_retry(fault, failure, attempts)

    async def _wait_to_retry(self, fault: Fault, failure: TwinlaneError, attempts: _Attempts) -> None:
        now_s = self._clock.monotonic_s()
        verdict = decide(
            self._policy,
            fault,
            attempts=attempts.retries + 1,
            remaining_s=attempts.deadline_s - now_s,
            budget_has_room=self._budget.has_room(now_s=now_s),
            random=self._random,
        )
        if not isinstance(verdict, RetryIn):
            raise failure
        self._budget.count_retry(now_s=now_s)
        attempts.retries += 1
        await asyncio.sleep(verdict.delay_s)
