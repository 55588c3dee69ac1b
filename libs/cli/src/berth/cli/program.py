"""How this program is called from where the user stands, so that what it prints can be copied and runs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """`berth` where that is found, else the path that was called, from the current folder: `.venv/bin/berth`."""
    called = Path(sys.argv[0])
    if called.name != "berth" or not called.is_file():
        is_module = called.parts[-2:] == ("cli", "__main__.py")
        return f"{_from_here(Path(sys.executable))} -m berth.cli" if is_module else "berth"
    if _is_same(shutil.which("berth"), called) and not os.environ.get("UV_RUN_RECURSION_DEPTH"):
        return "berth"
    return _from_here(called)


def _from_here(path: Path) -> str:
    whole, here = path.absolute(), Path.cwd()
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))


def _is_same(found: str | None, called: Path) -> bool:
    return found is not None and os.path.samefile(found, called)
