"""Structured logs: one event a line on stderr, JSON for machines or aligned text for people."""

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


def configure_logs(*, service: str, level: LogLevel, log_format: LogFormat) -> None:
    """Set the process's logging up. `service` is bound to every event, and trace ids where the caller bound them."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The pretty formatter prints local variables, and with them what callers sent.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    logging.basicConfig(level=max(threshold, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
