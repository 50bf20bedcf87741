"""The size of a model's vocabulary, from its folder."""

import json
from pathlib import Path

_CONFIG_FILE = "config.json"
_KEY = "vocab_size"


def read_vocabulary_size(folder: Path) -> int | None:
    """Return `vocab_size` of the folder's config.json, or None where it is not said there."""
    try:
        config = json.loads((folder / _CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    size = config.get(_KEY) if isinstance(config, dict) else None
    return size if isinstance(size, int) else None
