"""What torch's caching allocator holds without using it, where the model runs in this process on a GPU."""

import torch


def allocator_fragmentation() -> float | None:
    """Return the share of the reserved GPU memory that no tensor lives in, 0 to 1; None where this process uses no GPU."""
    if not torch.cuda.is_initialized():
        return None
    reserved = torch.cuda.memory_reserved()
    return 1 - torch.cuda.memory_allocated() / reserved if reserved else None
