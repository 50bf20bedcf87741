"""Deadlines of gRPC calls."""

from typing import Any

import grpc


def remaining_s(context: grpc.aio.ServicerContext[Any, Any]) -> float | None:
    """Return seconds until the caller's deadline, at least 0, or None where the caller set none."""
    left: float | None = context.time_remaining()
    return None if left is None else max(0.0, left)
