"""What the router costs against a bare gRPC passthrough in front of the same simulated engine.

    python -m bench.router_overhead [--seconds 4] [--rounds 5]

Engine, router and passthrough are processes of their own; this one makes the load. Router and passthrough take turns within
the run, and medians over the rounds are compared, so that what else the machine does falls on both. The engine answers
without waiting (simulated time at full speed). The last line is one JSON object: calls per second, ratios (1 is no cost),
added latency of a single caller, and processor time per call of either.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import grpc
from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.engine.v1 import engine_pb2
from twinlane.inference.v1 import inference_pb2

from libs.core.clock import SystemClock
from libs.limits.window import quantile
from libs.tokens.sim import SimTokenizer

_CLOCK = SystemClock()
_MODEL = "sim"
_LANE = lane_pb2.LANE_AUTO
_STREAM_MESSAGES = 64
_CALLERS = 32
_STREAM_CALLERS = 8
_PROMPT = "My card was charged twice for the same purchase in the grocery store on Monday, please look into it."
_START_PATIENCE_S = 30.0

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One of the two that are compared."""

    name: str
    pid: int
    unary: Call
    stream: Call


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one target did in one round."""

    rps: float
    stream_messages_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us_per_call: float


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def engine_file(folder: Path, port: int) -> Path:
    """Write the engine's configuration."""
    file = folder / "engine.toml"
    file.write_text(
        f'service = "engine"\nengine_id = "sim-1"\npool = "realtime"\naddress = "127.0.0.1:{port}"\nprofile = "batch"\n'
        f'[model]\nname = "{_MODEL}"\n[backend]\nkind = "sim"\n[sim]\nspeed = 0.0\n'
        '[warm_up]\nrequests = 10\n[log]\nlevel = "error"\n'
    )
    return file


def router_file(folder: Path, port: int, engine_port: int) -> Path:
    """Write the router's configuration."""
    file = folder / "router.toml"
    file.write_text(
        f'service = "router"\nrouter_id = "router-1"\naddress = "127.0.0.1:{port}"\n'
        f'metrics_address = "127.0.0.1:{free_port()}"\n'
        f'[model]\nname = "{_MODEL}"\ntokenizer = "sim"\n[log]\nlevel = "error"\n'
        f'[[static_engines]]\nengine_id = "sim-1"\naddress = "127.0.0.1:{engine_port}"\npool = "realtime"\n'
        "max_context_tokens = 4096\n"
    )
    return file


def start(*command: str) -> subprocess.Popen[str]:
    """Start a Python module."""
    return subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)


async def wait_answered(call: Call) -> None:
    """Return when a call succeeds. Raises the last error after _START_PATIENCE_S."""
    until_s = _CLOCK.monotonic_s() + _START_PATIENCE_S
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError:
            if _CLOCK.monotonic_s() > until_s:
                raise
            await asyncio.sleep(0.1)


def unary(channel: grpc.aio.Channel, method: str, raw: bytes) -> Call:
    """Return a function that makes one unary call."""
    stub: Any = channel.unary_unary(method)

    async def call() -> None:
        answer = await stub(raw, timeout=30)
        assert answer

    return call


def stream(channel: grpc.aio.Channel, method: str, raw: bytes) -> Call:
    """Return a function that makes one streamed call and counts its messages."""
    stub: Any = channel.unary_stream(method)

    async def call() -> None:
        answer = stub(raw, timeout=30)
        count = 0
        while await answer.read() is not grpc.aio.EOF:
            count += 1
        assert count == _STREAM_MESSAGES + 2, f"{count} messages"

    return call


async def load(call: Call, *, callers: int, seconds: float) -> tuple[float, list[float]]:
    """Call in closed loops; returns calls per second and the latencies in milliseconds."""
    began_s = _CLOCK.monotonic_s()
    latencies_ms: list[float] = []

    async def caller() -> None:
        while (sent_s := _CLOCK.monotonic_s()) - began_s < seconds:
            await call()
            latencies_ms.append((_CLOCK.monotonic_s() - sent_s) * 1000)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(latencies_ms) / (_CLOCK.monotonic_s() - began_s), latencies_ms


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(target: Target, seconds: float) -> Round:
    """Run one round."""
    before_s = cpu_s(target.pid)
    rps, latencies = await load(target.unary, callers=_CALLERS, seconds=seconds)
    cpu_us = (cpu_s(target.pid) - before_s) / len(latencies) * 1e6
    streams_per_s, _ = await load(target.stream, callers=_STREAM_CALLERS, seconds=seconds)
    _, alone = await load(target.unary, callers=1, seconds=seconds)
    ordered = sorted(alone)
    return Round(
        rps=rps,
        stream_messages_per_s=streams_per_s * _STREAM_MESSAGES,
        p50_ms=quantile(ordered, 0.5),
        p99_ms=quantile(ordered, 0.99),
        cpu_us_per_call=cpu_us,
    )


def requests() -> tuple[bytes, bytes, bytes, bytes]:
    """Return a unary and a streamed request for the router, and the same for the engine."""
    tokens = SimTokenizer().encode(_PROMPT)
    one = generation_pb2.Stopping(max_new_tokens=1)
    many = generation_pb2.Stopping(max_new_tokens=_STREAM_MESSAGES, ignore_eos=True)
    # A request id of its own for each call would cost the client, not the router: the passthrough gets ids from below.
    return (
        inference_pb2.CompleteRequest(prompt=_PROMPT, stopping=one).SerializeToString(),
        inference_pb2.GenerateRequest(prompt=_PROMPT, stopping=many).SerializeToString(),
        engine_pb2.CompleteRequest(model=_MODEL, token_ids=tokens, lane=_LANE, stopping=one).SerializeToString(),
        engine_pb2.GenerateRequest(model=_MODEL, token_ids=tokens, lane=_LANE, stopping=many).SerializeToString(),
    )


class Numbered:
    """An engine request with a new request_id for each call, appended to its bytes."""

    def __init__(self, raw: bytes, message_type: Any) -> None:
        self._raw = raw
        self._message_type = message_type
        self._count = 0

    def next(self) -> bytes:
        """Return the bytes of the next request."""
        self._count += 1
        return self._raw + bytes(self._message_type(request_id=f"bench-{id(self)}-{self._count}").SerializeToString())


def numbered_unary(channel: grpc.aio.Channel, method: str, numbered: Numbered) -> Call:
    """As `unary`, with numbered requests."""
    stub: Any = channel.unary_unary(method)

    async def call() -> None:
        assert await stub(numbered.next(), timeout=30)

    return call


def numbered_stream(channel: grpc.aio.Channel, method: str, numbered: Numbered) -> Call:
    """As `stream`, with numbered requests."""

    async def call() -> None:
        await stream(channel, method, numbered.next())()

    return call


def report(rounds: dict[str, list[Round]]) -> dict[str, float]:
    """Return the medians and what follows from them."""

    def of(name: str, field: str) -> float:
        return float(median(getattr(one, field) for one in rounds[name]))

    return {
        "passthrough_rps": round(of("passthrough", "rps"), 1),
        "router_rps": round(of("router", "rps"), 1),
        "rps_ratio": round(of("router", "rps") / of("passthrough", "rps"), 3),
        "added_p50_ms": round(of("router", "p50_ms") - of("passthrough", "p50_ms"), 3),
        "added_p99_ms": round(of("router", "p99_ms") - of("passthrough", "p99_ms"), 3),
        "stream_ratio": round(of("router", "stream_messages_per_s") / of("passthrough", "stream_messages_per_s"), 3),
        "passthrough_stream_messages_per_s": round(of("passthrough", "stream_messages_per_s"), 1),
        "router_stream_messages_per_s": round(of("router", "stream_messages_per_s"), 1),
        "passthrough_cpu_us_per_call": round(of("passthrough", "cpu_us_per_call"), 1),
        "router_cpu_us_per_call": round(of("router", "cpu_us_per_call"), 1),
    }


async def compare(folder: Path, *, seconds: float, rounds: int, children: list[subprocess.Popen[str]]) -> dict[str, float]:
    """Start everything, warm both up, take turns."""
    engine_port, router_port = free_port(), free_port()
    children.append(start("services.engine.main", "--config", str(engine_file(folder, engine_port))))
    router = start("services.router.main", "--config", str(router_file(folder, router_port, engine_port)))
    children.append(router)
    proxy = start("bench.passthrough", f"127.0.0.1:{engine_port}")
    children.append(proxy)
    assert proxy.stdout is not None
    proxy_port = int(await asyncio.to_thread(proxy.stdout.readline))
    unary_raw, stream_raw, engine_unary, engine_stream = requests()
    to_router = grpc.aio.insecure_channel(f"127.0.0.1:{router_port}")
    to_proxy = grpc.aio.insecure_channel(f"127.0.0.1:{proxy_port}")
    inference, engine = "/twinlane.inference.v1.InferenceService", "/twinlane.engine.v1.EngineService"
    targets = [
        Target(
            name="passthrough",
            pid=proxy.pid,
            unary=numbered_unary(to_proxy, f"{engine}/Complete", Numbered(engine_unary, engine_pb2.CompleteRequest)),
            stream=numbered_stream(to_proxy, f"{engine}/Generate", Numbered(engine_stream, engine_pb2.GenerateRequest)),
        ),
        Target(
            name="router",
            pid=router.pid,
            unary=unary(to_router, f"{inference}/Complete", unary_raw),
            stream=stream(to_router, f"{inference}/Generate", stream_raw),
        ),
    ]
    for target in targets:
        await wait_answered(target.unary)
        await load(target.unary, callers=_CALLERS, seconds=1.0)
    done: dict[str, list[Round]] = {target.name: [] for target in targets}
    for number in range(rounds):
        # Each goes first every other time.
        for target in targets if number % 2 == 0 else reversed(targets):
            done[target.name].append(await measure(target, seconds))
    await to_router.close()
    await to_proxy.close()
    return report(done)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement; a round has three of each target")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    children: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = asyncio.run(compare(Path(folder), seconds=arguments.seconds, rounds=arguments.rounds, children=children))
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
