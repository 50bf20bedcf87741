"""What vLLM loads into each of its processes (entry point group vllm.general_plugins)."""

from services.engine.vllm_ext.control import CONTROL_METHOD, control


def register() -> None:
    """Give the engine core its control method. Called by vLLM, more than once in a process."""
    from vllm.v1.engine.core import EngineCore  # vLLM is there when vLLM calls

    setattr(EngineCore, CONTROL_METHOD, control)
