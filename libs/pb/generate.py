"""Generate libs/pb/twinlane from protos/: `python -m libs.pb.generate`; with --check only compare and fail on drift."""

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"
GENERATED = ROOT / "libs" / "pb"


def generate(target: Path) -> None:
    """Write Python code, gRPC stubs and type stubs for every proto under `target`. Raises CalledProcessError."""
    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    plugins = Path(sys.executable).parent
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={PROTOS}",
        f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
        *files,
    ]
    subprocess.run(command, check=True)
    for path in sorted(target.rglob("*_pb2_grpc.py*")):
        proto = PROTOS / path.relative_to(target).parent / f"{path.name.split('_pb2_grpc')[0]}.proto"
        if "\nservice " not in proto.read_text(encoding="utf-8"):
            path.unlink()


def drift() -> list[str]:
    """Return the files that differ, are missing, or should not be there."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        expected = _generated(fresh)
        found = _generated(GENERATED)
        return sorted(
            str(path)
            for path in expected | found
            if path not in expected or path not in found or not filecmp.cmp(fresh / path, GENERATED / path, shallow=False)
        )


def _generated(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in (folder / "twinlane").rglob("*_pb2*.py*") if "__pycache__" not in path.parts}


def main() -> int:
    """Run from the command line."""
    if "--check" in sys.argv[1:]:
        differing = drift()
        for path in differing:
            sys.stderr.write(f"libs/pb/{path} does not match protos/; run `make protos`\n")
        return 1 if differing else 0
    for path in _generated(GENERATED):
        (GENERATED / path).unlink()
    generate(GENERATED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
