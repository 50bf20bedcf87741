"""Each test runs a process of its own: logging is set up once a process."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging, threading
import structlog
from libs.telemetry.logs import configure_logs

log = structlog.get_logger("ours")
configure_logs(service="router", level={level!r}, log_format={log_format!r})

def fail(prompt):
    raise ValueError("not good")

def speak():
    log.debug("quiet")
    log.info("hello", engine_id="e-1")
    try:
        fail("account" + "number")
    except ValueError:
        log.exception("failed")
        logging.getLogger("theirs").exception("failed there %d", 7)
    logging.getLogger("theirs").info("chatter")

thread = threading.Thread(target=speak)
thread.start()
thread.join()
"""


def _stderr(level: str, log_format: str) -> str:
    program = PROGRAM.format(level=level, log_format=log_format)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    return done.stderr


def test_json_logs_are_one_object_a_line_with_service_level_and_time() -> None:
    events = [json.loads(line) for line in _stderr("info", "json").splitlines()]
    assert [event["event"] for event in events] == ["hello", "failed", "failed there 7"]
    assert [event["level"] for event in events] == ["info", "error", "error"]
    assert {event["service"] for event in events} == {"router"}
    assert all(event["timestamp"].endswith("Z") for event in events)
    assert events[0]["engine_id"] == "e-1"
    assert events[2]["logger"] == "theirs"


def test_json_logs_of_an_exception_have_its_traceback() -> None:
    failures = [json.loads(line) for line in _stderr("info", "json").splitlines()][1:]
    assert all("ValueError: not good" in failure["exception"] for failure in failures)


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_logs_never_show_local_variables(log_format: str) -> None:
    written = _stderr("debug", log_format)
    assert "ValueError: not good" in written
    assert "accountnumber" not in written


@pytest.mark.parametrize(("level", "shown"), [("debug", True), ("info", False)])
def test_logs_below_the_level_are_dropped(level: str, shown: bool) -> None:
    assert ('"quiet"' in _stderr(level, "json")) is shown


def test_text_logs_have_a_line_for_each_event() -> None:
    assert "hello" in _stderr("info", "text")
