"""Write the messages of every `.proto` of the libraries beside it, with their types; `--check` only compares.

protoc comes with grpcio-tools. Its Python output and its `.pyi` are all that is generated: gRPC needs no stubs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def generate(folder: Path, sources: list[Path], target: Path) -> None:
    """Compile the sources, which lie below `folder`, to the same places below `target`."""
    output = [f"--python_out={target}", f"--pyi_out={target}"]
    names = [str(source.relative_to(folder)) for source in sources]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", *output, *names], check=True)  # noqa: S603


def outdated(folder: Path, sources: list[Path]) -> list[Path]:
    """Generated files that are not what the sources say."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(folder, sources, Path(scratch))
        fresh = {path.relative_to(scratch): path.read_bytes() for path in Path(scratch).rglob("*") if path.is_file()}
    return [folder / name for name, content in sorted(fresh.items()) if not same(folder / name, content)]


def same(path: Path, content: bytes) -> bool:
    """Whether the file has this content."""
    return path.is_file() and path.read_bytes() == content


def main() -> int:
    """Generate or check; 1 when something is outdated."""
    stale: list[Path] = []
    for folder in sorted(ROOT.glob("libs/*/src")):
        sources = sorted(folder.rglob("*.proto"))
        if sources and "--check" in sys.argv[1:]:
            stale += outdated(folder, sources)
        elif sources:
            generate(folder, sources, folder)
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what its .proto says: run `make contracts`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
