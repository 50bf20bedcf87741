"""Tells the engine process why vLLM's core ended: vLLM itself passes on an exit code alone, and the cause only to its log."""

import logging
from pathlib import Path

from libs.config import environ

# Environment variable with the file that the cause is written to.
REPORT_FILE = "TWINLANE_CORE_REPORT"
# The logger on which the core logs the exception that ends it, at start and later.
CORE_LOGGER = "vllm.v1.engine.core"


class EndReport(logging.Handler):
    """Writes the text of each logged exception to one file; the last one stays."""

    def __init__(self, file: Path) -> None:
        super().__init__(level=logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record; one without an exception says nothing about an end."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        try:
            self._file.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        except OSError:
            self.handleError(record)


def report_end() -> None:
    """Start to report, where the engine process asks for it. A second call in one process changes nothing."""
    name, logger = environ.read(REPORT_FILE), logging.getLogger(CORE_LOGGER)
    if name is None or any(isinstance(handler, EndReport) for handler in logger.handlers):
        return
    # A logger with a handler no longer falls back on stderr by itself.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logger.addHandler(EndReport(Path(name)))
