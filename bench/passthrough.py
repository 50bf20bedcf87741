"""A bare gRPC proxy in front of one engine, without any policy: what the router is measured against.

    python -m bench.passthrough ENGINE_ADDRESS

Prints the port that it listens on. Takes engine requests and hands bytes on in both directions, with deadline and metadata.
"""

import asyncio
import sys
from typing import Any

import grpc

_SERVICE = "twinlane.engine.v1.EngineService"


class Passthrough:
    """The two methods of an engine that routers call."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._complete: Any = channel.unary_unary(f"/{_SERVICE}/Complete")
        self._generate: Any = channel.unary_stream(f"/{_SERVICE}/Generate")

    async def complete(self, raw: bytes, context: Any) -> bytes:
        """Hand one answer back."""
        answer: bytes = await self._complete(raw, timeout=context.time_remaining(), metadata=_onward(context))
        return answer

    async def generate(self, raw: bytes, context: Any) -> None:
        """Hand a stream back."""
        stream = self._generate(raw, timeout=context.time_remaining(), metadata=_onward(context))
        while (message := await stream.read()) is not grpc.aio.EOF:
            await context.write(message)


def _onward(context: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in context.invocation_metadata() if key in ("traceparent", "tracestate"))


async def serve(engine_address: str) -> None:
    """Serve until killed."""
    proxy = Passthrough(grpc.aio.insecure_channel(engine_address))
    handlers: dict[str, Any] = {
        "Complete": grpc.unary_unary_rpc_method_handler(proxy.complete),
        "Generate": grpc.unary_stream_rpc_method_handler(proxy.generate),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
