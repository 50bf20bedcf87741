"""The model's folder: prepared once, then found again."""

import subprocess
import sys
from pathlib import Path

from rich.console import Console

from cli.errors import CliError
from cli.mesh.plan import EngineKind

MODEL_NAME = "smollm2-135m"


def prepare_model(backend: EngineKind, folder: Path, console: Console) -> None:
    """Make the model's folder where it is missing; its steps are shown. Raises CliError where that fails."""
    if backend is EngineKind.SIM or (folder / "config.json").exists():
        return
    console.print(f"preparing the model in {folder} (once; about half a minute)")
    done = subprocess.run([sys.executable, "-m", "services.engine.model.prepare", "--out", str(folder)], check=False)
    if done.returncode != 0:
        raise CliError(f"the model could not be prepared in {folder} (exit code {done.returncode})")
