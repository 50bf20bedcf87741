"""The model's folder: prepared once, then found again."""

import subprocess
import sys
from pathlib import Path

from rich.console import Console

from cli.errors import CliError
from cli.mesh.plan import EngineKind

MODEL_NAME = "smollm2-135m"


def prepare_model(backend: EngineKind, folder: Path, console: Console) -> None:
    """Make the model's folder where it is missing, with a progress line. Raises CliError where that fails."""
    if backend is EngineKind.SIM:
        return
    command = [sys.executable, "-m", "services.engine.model.prepare", "--model", MODEL_NAME, "--to", str(folder)]
    with console.status("preparing the model; the first time takes about half a minute"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CliError(f"the model cannot be prepared: {(done.stderr.splitlines() or ['no output'])[-1]}")
