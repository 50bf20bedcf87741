"""`twinlane top`: the mesh, live."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from cli.calls import DEFAULT_CONTROLLER, DEFAULT_ROUTER, channel_to
from cli.top.frame import read_controller, read_router, render

_REFRESH_S = 1.0


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    controller: Annotated[str, typer.Option(help="host:port of the controller.")] = DEFAULT_CONTROLLER,
    router: Annotated[str, typer.Option(help="host:port of a router.")] = DEFAULT_ROUTER,
) -> None:
    """Show engines, lanes, tuning and decisions, renewed each second; Ctrl-C ends it."""
    console = Console(highlight=False, markup=False)
    try:
        asyncio.run(_watch(console, controller, router, once=once))
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _watch(console: Console, controller: str, router: str, *, once: bool) -> None:
    async with channel_to(controller) as to_controller, channel_to(router) as to_router:

        async def frame() -> RenderableType:
            return render(await read_controller(to_controller, controller), await read_router(to_router, router))

        if once:
            console.print(await frame())
            return
        with Live(await frame(), console=console, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(_REFRESH_S)
                live.update(await frame(), refresh=True)
