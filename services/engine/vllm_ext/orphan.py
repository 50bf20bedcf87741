"""Ends a process of vLLM whose parent is gone: a killed engine must not leave a core behind that holds memory and cores."""

import os
import threading
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

_THREAD_NAME = "twinlane-parent-watch"
_EXIT_ORPHANED = 1


def end_with(parent: BaseProcess) -> None:
    """End this process at once when `parent` has ended, however it ended. A second call in one process changes nothing."""
    if any(thread.name == _THREAD_NAME for thread in threading.enumerate()):
        return
    threading.Thread(target=_end_after, args=(parent,), name=_THREAD_NAME, daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    wait([parent.sentinel])
    # Nobody is left to whom an orderly end would matter, and the main thread may be deep in a step.
    os._exit(_EXIT_ORPHANED)
