"""The engine's entry in the controller's registry: announced at start, renewed for ever, taken back at the end.

A controller that is away is retried with backoff and never disturbs serving.
"""

import asyncio
from collections.abc import Callable

import grpc
import structlog
from twinlane.controller.v1 import registry_pb2, registry_pb2_grpc

from libs.rpc.channel import open_channel
from libs.rpc.fault import read_fault

_log = structlog.get_logger(__name__)

_CALL_TIMEOUT_S = 2.0
_FIRST_RETRY_S = 0.1
_MAX_RETRY_S = 1.0
# The shortest interval between renewals, whatever the controller grants.
_MIN_RENEW_S = 0.05
_MAX_MESSAGE_BYTES = 1_048_576

Announcement = Callable[[], registry_pb2.RegisterRequest]


class Registration:
    """Keeps the entry alive in a task of its own. `announcement` is asked anew for each call."""

    def __init__(self, address: str, announcement: Announcement) -> None:
        self._channel = open_channel(address, max_message_bytes=_MAX_MESSAGE_BYTES)
        self._stub: registry_pb2_grpc.RegistryServiceAsyncStub = registry_pb2_grpc.RegistryServiceStub(self._channel)
        self._address = address
        self._announcement = announcement
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to announce."""
        self._task = asyncio.create_task(self._keep(), name="registration")

    def announce(self) -> None:
        """Say at once what has changed."""
        self._news.set()

    async def deregister(self) -> None:
        """Stop announcing and take the entry back; a controller that is away is no error. May be called twice."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        descriptor = self._announcement().descriptor
        request = registry_pb2.DeregisterRequest(engine_id=descriptor.engine_id, epoch=descriptor.epoch)
        try:
            await self._stub.Deregister(request, timeout=_CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            _log.warning("could not deregister", controller=self._address, error=read_fault(error).message)

    async def stop(self) -> None:
        """Deregister and close the channel."""
        await self.deregister()
        await self._channel.close()

    async def _keep(self) -> None:
        retry_s: float | None = None
        while True:
            self._news.clear()
            renew_s = await self._register(first_failure=retry_s is None)
            if renew_s is None:
                retry_s = _FIRST_RETRY_S if retry_s is None else min(2 * retry_s, _MAX_RETRY_S)
                await asyncio.sleep(retry_s)
            else:
                retry_s = None
                await self._rest(renew_s)

    async def _register(self, *, first_failure: bool) -> float | None:
        """Register once; return the time to renewal, or None where it failed."""
        try:
            response = await self._stub.Register(self._announcement(), timeout=_CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if first_failure:
                fault = read_fault(error)
                _log.warning("could not register", controller=self._address, reason=fault.reason, error=fault.message)
            return None
        return max(response.renew_interval.ToMilliseconds() / 1000, _MIN_RENEW_S)

    async def _rest(self, seconds: float) -> None:
        """Wait for the time of renewal, or for news."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
