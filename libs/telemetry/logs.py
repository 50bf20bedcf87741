"""Structured logs: one event a line on stderr, JSON for machines or aligned text for people."""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


def configure_logs(*, service: str, level: LogLevel, log_format: LogFormat) -> None:
    """Set the process's logging up, for structlog and for the standard library's loggers alike.

    Every event has `service`, and what the caller bound to structlog's context. Libraries below us are heard from warnings
    on. Tracebacks never show local variables: they hold what callers sent.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_service(service),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    ends = _json_end() if log_format == "json" else _text_end()
    structlog.configure(
        processors=[*shared, *ends],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _configure_standard_library(shared, ends, level=max(threshold, logging.WARNING))


def _json_end() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _text_end() -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback),
    ]


def _add_service(service: str) -> Processor:
    def add(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)
        return event

    return add


def _configure_standard_library(shared: list[Processor], ends: list[Processor], *, level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ends],
        )
    )
    logging.basicConfig(level=level, handlers=[handler])
