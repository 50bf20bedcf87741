"""Background tasks whose failures are never lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


def start_task(work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
    """Start a task; the caller keeps it and ends it with `end_tasks`. Its failure is logged when it happens."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


async def end_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and return when all have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("a task failed", task=task.get_name(), exc_info=task.exception())
