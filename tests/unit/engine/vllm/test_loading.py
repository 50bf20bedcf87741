"""What is told of a core that ended."""

from collections.abc import Iterator

import pytest

from libs.core.clock import ManualClock
from services.engine.backend.vllm_loading import VllmLoading, exit_words
from services.engine.backend.vllm_stats import StepStats
from services.engine.vllm_ext.end_report import EndReport
from tests.unit.engine.vllm.options import options
from tests.unit.engine.vllm.test_end_report import logged


@pytest.fixture
def loading() -> Iterator[VllmLoading]:
    loading = VllmLoading(options(), StepStats(ManualClock()))
    yield loading
    loading.close()


def test_core_that_named_no_cause_has_none(loading: VllmLoading) -> None:
    assert loading.reported_cause() is None
    assert loading.how_it_ended() == "vLLM's core process ended"


def test_cause_that_the_core_named_is_told(loading: VllmLoading) -> None:
    EndReport(loading.report_file).emit(logged(RuntimeError("no room")))

    assert loading.how_it_ended() == "vLLM's core process ended; RuntimeError: no room"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(1, "exit code 1", id="exit"),
        pytest.param(-9, "killed by SIGKILL", id="signal"),
        pytest.param(-200, "killed by signal 200", id="unknown-signal"),
    ],
)
def test_exit_code_in_words(code: int, words: str) -> None:
    assert exit_words(code) == words
