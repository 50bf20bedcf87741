"""A process of vLLM whose parent is killed ends by itself. Plain processes stand in for the engine and its core."""

import os
import signal
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
# The child holds the pipe open as long as it lives, and would do so for ever.
_PARENT = """
import multiprocessing, threading
from services.engine.vllm_ext.orphan import end_with

def child():
    end_with(multiprocessing.parent_process())
    end_with(multiprocessing.parent_process())
    print(threading.active_count(), flush=True)
    threading.Event().wait()

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
"""


def test_child_of_a_killed_parent_ends() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as pipe:
        assert pipe.readline() == "2\n"
        os.kill(parent.pid, signal.SIGKILL)
        assert pipe.read() == ""
    assert parent.wait(timeout=5) == -signal.SIGKILL
