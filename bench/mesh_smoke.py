"""`python -m bench.mesh_smoke [--engine vllm|sim]`: mixed input through a whole mesh.

Starts a mesh on free ports, runs the main job on it for a bounded number of tickets, cancels a call, and stops everything. The
last line is one JSON object: per lane count, errors, first-token and total quantiles in milliseconds and tokens per second;
the number of controller changes; and `cancel_free_s`, the time from a caller's cancel until the engine holds no request.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2, inference_pb2_grpc

from bench.mesh import Mesh, connect, eventually, running_mesh
from bench.mesh_load import running_requests
from libs.core.clock import SystemClock

# Realtime tickets and their arrivals: half a minute with the real model, a few seconds with the simulated one.
_TICKETS = {"vllm": 60, "sim": 200}
_TICKETS_PER_S = {"vllm": 2.0, "sim": 60.0}
_JOB_LIMIT_S = 400.0
_CANCEL_LIMIT_S = 10.0
_LONG_ANSWER_TOKENS = 900


def main() -> None:
    """Run the benchmark and print its result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=sorted(_TICKETS), default="vllm")
    parser.add_argument("--model-data", type=Path, default=Path("var"), help="data folder that holds the prepared model")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="twinlane-smoke-") as folder,
        running_mesh(engine=options.engine, data=Path(folder), model_data=options.model_data) as mesh,
    ):
        result = run_job(mesh, options.engine)
        cancel_free_s = asyncio.run(measure_cancel(mesh))
    print(json.dumps({"bench": "mesh_smoke", "engine": options.engine, **result, "cancel_free_s": round(cancel_free_s, 3)}))


def run_job(mesh: Mesh, engine: str) -> dict[str, object]:
    """Run the main job against the mesh and return its JSON result. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "cli.main", "job", "--json"),
            *("--tickets", str(_TICKETS[engine]), "--tickets-per-s", str(_TICKETS_PER_S[engine])),
            *("--router", mesh.router, "--controller", mesh.controller),
        ],
        stdout=subprocess.PIPE,
        timeout=_JOB_LIMIT_S,
        check=True,
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


async def measure_cancel(mesh: Mesh) -> float:
    """Cancel a long answer after its first token and return the seconds until no engine holds a request."""
    clock = SystemClock()
    request = inference_pb2.GenerateRequest(
        prompt="Count upwards from one:",
        lane=lane_pb2.LANE_REALTIME,
        stopping=generation_pb2.Stopping(max_new_tokens=_LONG_ANSWER_TOKENS, ignore_eos=True),
    )
    async with connect(mesh.router) as channel:
        call = inference_pb2_grpc.InferenceServiceStub(channel).Generate(request)
        await call.read()
        begun_s = clock.monotonic_s()
        call.cancel()

        async def read() -> int:
            return await running_requests(mesh)

        await eventually(read, lambda count: count == 0, limit_s=_CANCEL_LIMIT_S)
        return clock.monotonic_s() - begun_s


if __name__ == "__main__":
    main()
