"""What vLLM loads into each of its processes (entry point group vllm.general_plugins)."""

import multiprocessing

from services.engine.vllm_ext.control import CONTROL_METHOD, control
from services.engine.vllm_ext.end_report import report_end
from services.engine.vllm_ext.orphan import end_with


def register() -> None:
    """Give the engine core its control method; in vLLM's own processes also report their end and end with their parent.

    Called by vLLM, more than once in a process.
    """
    from vllm.v1.engine.core import EngineCore  # vLLM is there when vLLM calls

    setattr(EngineCore, CONTROL_METHOD, control)
    parent = multiprocessing.parent_process()
    if parent is not None:
        report_end()
        end_with(parent)
