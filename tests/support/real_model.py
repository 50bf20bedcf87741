"""The real model for tests marked `real`: prepared once, kept in the folder named by TWINLANE_MODELS, or in var/models."""

from functools import cache
from pathlib import Path

from libs.config import environ
from services.engine.domain import Partition, VllmOptions
from services.engine.model.prepare import prepare

NAME = "smollm2-135m"
_MODELS = Path(__file__).resolve().parents[2] / "var" / "models"


@cache
def model_folder() -> Path:
    """Return the prepared folder."""
    return prepare(NAME, Path(environ.read("TWINLANE_MODELS") or _MODELS) / NAME, progress=print)


def real_options(*, max_active_sequences: int = 16, max_batched_tokens: int = 512) -> VllmOptions:
    """Return options for a small engine on the first core."""
    return VllmOptions(
        model_name=NAME,
        model_folder=model_folder(),
        partition=Partition(kind="cpu", devices=("0",)),
        max_context_tokens=2048,
        max_active_sequences=max_active_sequences,
        max_batched_tokens=max_batched_tokens,
        block_size_tokens=32,
        enforce_eager=True,
        kv_cache_gib=1,
    )
