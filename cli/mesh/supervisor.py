"""Starts the processes of a mesh, starts again what dies, and stops all in order."""

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import Callable

from cli.errors import CliError
from cli.mesh.backoff import restart_delay_s
from cli.mesh.plan import MeshPlan, ServiceKind, ServicePlan
from cli.mesh.process import end, last_line, spawn
from cli.mesh.readiness import wait_serving

# A start from a warm cache takes about half a minute with the real model on two cores.
START_LIMIT_S = 300.0
# Engines let running streams finish first; router and controller have nothing that takes longer.
_STOP_GRACE_S = {ServiceKind.ROUTER: 10.0, ServiceKind.ENGINE: 15.0, ServiceKind.CONTROLLER: 5.0}
_STOP_ORDER = (ServiceKind.ROUTER, ServiceKind.ENGINE, ServiceKind.CONTROLLER)

Say = Callable[[str], None]


class Supervisor:
    """Owns the processes of one mesh. `say` gets one line for people at each event."""

    def __init__(self, plan: MeshPlan, *, say: Say) -> None:
        self._plan = plan
        self._say = say
        self._processes: dict[str, Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        # What each service that is not ready yet is doing, for a progress display.
        self.progress: dict[str, str] = {}

    async def start(self) -> None:
        """Start every service and return when all serve. Raises CliError where one ends first or takes too long."""
        for service in self._plan.services:
            await self._spawn(service)
        starts = [asyncio.create_task(self._until_serving(service)) for service in self._plan.services]
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await asyncio.gather(*starts)
        except TimeoutError:
            waiting = ", ".join(f"{name} ({phase})" for name, phase in self.progress.items())
            raise CliError(f"not ready after {START_LIMIT_S:.0f} s: {waiting}; logs are in {self._plan.data / 'log'}") from None
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        self._keepers = [asyncio.create_task(self._keep(service)) for service in self._plan.services]

    async def watch(self) -> None:
        """Return only by raising what went wrong with keeping the services alive; cancel it to end the watch."""
        await asyncio.gather(*self._keepers)

    async def stop(self) -> None:
        """Stop router, engines and controller in this order; what does not end in time is killed."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for kind in _STOP_ORDER:
            await asyncio.gather(
                *(
                    end(self._processes[service.name], grace_s=_STOP_GRACE_S[kind])
                    for service in self._plan.services
                    if service.kind is kind and service.name in self._processes
                )
            )
        self._plan.state_file.unlink(missing_ok=True)

    async def _spawn(self, service: ServicePlan) -> None:
        self._processes[service.name] = await spawn(service)
        self._write_state()

    async def _until_serving(self, service: ServicePlan) -> None:
        """Return when it serves. Raises CliError with the last line of its log where it ends instead."""
        process = self._processes[service.name]
        self.progress[service.name] = "starting"
        ended = asyncio.create_task(process.wait())
        serving = asyncio.create_task(wait_serving(service, self.progress))
        try:
            await asyncio.wait((ended, serving), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise CliError(f"{service.name} ended (exit code {process.returncode}): {last_line(service.log_file)}")
            await serving
        finally:
            ended.cancel()
            serving.cancel()
            await asyncio.gather(ended, serving, return_exceptions=True)
        self.progress.pop(service.name, None)
        self._say(f"{service.name:<11} {service.address}")

    async def _keep(self, service: ServicePlan) -> None:
        """Start the service again whenever it ends."""
        deaths = 0
        while True:
            code = await self._processes[service.name].wait()
            await end(self._processes[service.name], grace_s=0)
            deaths += 1
            delay_s = restart_delay_s(deaths)
            self._say(f"{service.name} ended (exit code {code}); starting it again in {delay_s:g} s; log: {service.log_file}")
            await asyncio.sleep(delay_s)
            await self._spawn(service)
            try:
                await self._until_serving(service)
            except CliError:
                continue
            deaths = 0

    def _write_state(self) -> None:
        state = {
            service.name: {"address": service.address, "metrics": service.metrics_address, "pid": process.pid}
            for service in self._plan.services
            if (process := self._processes.get(service.name)) is not None
        }
        draft = self._plan.state_file.with_suffix(".tmp")
        draft.write_text(json.dumps(state, indent=2), encoding="utf-8")
        draft.replace(self._plan.state_file)
