"""A partition as the environment that pins a process and its children to it."""

from services.engine.domain import Partition

# Name of our entry point in the group vllm.general_plugins.
PLUGIN = "twinlane"


def environment(partition: Partition, *, kv_cache_gib: float | None, plugins: str | None = None) -> dict[str, str]:
    """Return the variables that vLLM and CUDA read; they must be set before vLLM is imported.

    On a CPU: the cores of the worker threads, and whole GiB for keys and values (vLLM takes no fractions; rounded up), without
    which the second engine of a machine finds no memory. On a GPU: the devices by UUID, so that a partition stays the same
    whatever order the driver lists devices in. `plugins` is VLLM_PLUGINS as found, None where unset: a list without our plugin
    would keep the control channel out of the core.
    """
    variables = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1", "VLLM_CONFIGURE_LOGGING": "0"}
    if plugins is not None and PLUGIN not in plugins.split(","):
        variables["VLLM_PLUGINS"] = ",".join(filter(None, [plugins, PLUGIN]))
    match partition.kind:
        case "cpu":
            variables["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(partition.devices)
            if kv_cache_gib is not None:
                variables["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, -int(-kv_cache_gib // 1)))
        case "gpu" | "mig":
            variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(partition.devices)
    return variables
