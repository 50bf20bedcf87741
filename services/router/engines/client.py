"""Calls to one engine: bytes in, bytes out."""

from typing import Any

import grpc

from libs.rpc.channel import open_channel

_COMPLETE = "/twinlane.engine.v1.EngineService/Complete"
_GENERATE = "/twinlane.engine.v1.EngineService/Generate"
_GET_ENGINE = "/twinlane.engine.v1.EngineService/GetEngine"

UnaryCall = grpc.aio.UnaryUnaryMultiCallable
StreamCall = grpc.aio.UnaryStreamMultiCallable


class EngineClient:
    """One channel to one engine, with its methods looked up once. Messages are not parsed."""

    def __init__(self, address: str, *, max_message_bytes: int) -> None:
        self.address = address
        self._channel = open_channel(address, max_message_bytes=max_message_bytes)
        self.complete: Any = self._channel.unary_unary(_COMPLETE)
        self.generate: Any = self._channel.unary_stream(_GENERATE)
        self.get_engine: Any = self._channel.unary_unary(_GET_ENGINE)

    async def close(self) -> None:
        """Close the channel; calls still running are cancelled."""
        await self._channel.close()
