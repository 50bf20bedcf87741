"""Checks of configuration across keys. Each fault is the dotted path of a key and what is wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from services.engine.domain import Partition, TuningValues
from services.engine.policy.profiles import CPU_BLOCK_MULTIPLE_TOKENS, Envelope

_GPU_PREFIX = "GPU-"
_MIG_PREFIX = "MIG-"
_UUID_HEX_DIGITS = 32


class Complaint(NamedTuple):
    """One fault."""

    path: str
    message: str


@dataclass(frozen=True, kw_only=True)
class PartitionFacts:
    """What the limits are for."""

    on_cpu: bool
    is_vllm: bool


def partition_faults(partition: Partition) -> Iterator[Complaint]:
    """Check that the devices are named, named once, and shaped as their kind is."""
    if not partition.devices:
        yield Complaint("partition.devices", "must name at least one device")
    if len(set(partition.devices)) != len(partition.devices):
        yield Complaint("partition.devices", "names a device twice")
    if partition.kind == "mig" and len(partition.devices) > 1:
        yield Complaint("partition.devices", "must name exactly one MIG instance: a process cannot use more")
    for index, device in enumerate(partition.devices):
        expected = _device_fault(partition.kind, device)
        if expected is not None:
            yield Complaint(f"partition.devices.{index}", f"{device!r} is not {expected}")


def memory_faults(envelope: Envelope, facts: PartitionFacts) -> Iterator[Complaint]:
    """Check block size and memory against where the engine runs."""
    block = envelope.block_size_tokens
    if facts.on_cpu and facts.is_vllm and block % CPU_BLOCK_MULTIPLE_TOKENS:
        yield Complaint("limits.block_size_tokens", f"{block} is not a multiple of {CPU_BLOCK_MULTIPLE_TOKENS}, as CPUs need")
    if facts.on_cpu and envelope.gpu_memory_ratio is not None:
        yield Complaint("limits.gpu_memory_ratio", "has no meaning on a CPU; use kv_cache_gib")
    if not facts.on_cpu and envelope.kv_cache_gib is not None:
        yield Complaint("limits.kv_cache_gib", "has no meaning on a GPU; use gpu_memory_ratio")
    if envelope.max_batched_tokens < envelope.max_active_sequences:
        yield Complaint("limits.max_batched_tokens", f"must be at least max_active_sequences ({envelope.max_active_sequences})")


def tuning_faults(tuning: TuningValues, envelope: Envelope) -> Iterator[Complaint]:
    """Check that the tuning lies within the limits."""
    if tuning.max_active_sequences > envelope.max_active_sequences:
        yield Complaint("tuning.max_active_sequences", f"must be at most the limit {envelope.max_active_sequences}")
    if tuning.max_batched_tokens > envelope.max_batched_tokens:
        yield Complaint("tuning.max_batched_tokens", f"must be at most the limit {envelope.max_batched_tokens}")


def _device_fault(kind: str, device: str) -> str | None:
    """Return what a device should have been, or None where it is that."""
    match kind:
        case "cpu":
            return None if device.isascii() and device.isdigit() else "a CPU core number"
        case "gpu":
            return None if _is_uuid(device, _GPU_PREFIX) else "a GPU UUID (GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)"
        case _:
            return None if _is_uuid(device, _MIG_PREFIX) else "a MIG instance UUID (MIG-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)"


def _is_uuid(device: str, prefix: str) -> bool:
    digits = device.removeprefix(prefix).replace("-", "")
    return device.startswith(prefix) and len(digits) == _UUID_HEX_DIGITS and all(c in "0123456789abcdefABCDEF" for c in digits)
