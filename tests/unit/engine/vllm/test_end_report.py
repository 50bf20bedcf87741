"""The core's account of its end."""

import logging
import sys
from pathlib import Path

from services.engine.vllm_ext.end_report import EndReport


def logged(error: Exception) -> logging.LogRecord:
    """Return the record of an exception that was logged with its stack."""
    try:
        raise error
    except type(error):
        return logging.LogRecord("core", logging.ERROR, __file__, 1, "EngineCore failed to start.", None, sys.exc_info())


def test_exception_is_written_with_its_kind(tmp_path: Path) -> None:
    EndReport(tmp_path / "cause").emit(logged(ValueError("too small")))

    assert (tmp_path / "cause").read_text(encoding="utf-8") == "ValueError: too small"


def test_later_exception_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    report = EndReport(tmp_path / "cause")
    report.emit(logged(ValueError("first")))
    report.emit(logged(RuntimeError("last")))

    assert (tmp_path / "cause").read_text(encoding="utf-8") == "RuntimeError: last"


def test_error_without_exception_is_no_end(tmp_path: Path) -> None:
    EndReport(tmp_path / "cause").emit(logging.LogRecord("core", logging.ERROR, __file__, 1, "odd", None, None))

    assert not (tmp_path / "cause").exists()
