"""What a benchmark has found, for programs: written as JSON into the folder that BERTH_BENCH_OUT names, beside what is
printed.

A file for each benchmark, `<name>.json`: the machine and the command, and tables, each a list of rows with the same
keys. It is written with each row, so that what was measured stays when a benchmark is stopped.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "BERTH_BENCH_OUT"
_tables: dict[str, list[dict[str, Any]]] = {}
_began = time.time()


def tell(table: str, **row: Any) -> None:
    """One row more of a table."""
    _tables.setdefault(table, []).append(row)
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    file = Path(folder) / f"{Path(sys.argv[0]).stem}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".part")
    draft.write_text(json.dumps({**_about(), "tables": _tables}, indent=1, default=float) + "\n")
    draft.replace(file)


def _about() -> dict[str, Any]:
    return {
        "benchmark": Path(sys.argv[0]).stem,
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_began)),
        "took_s": round(time.time() - _began, 1),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": [round(each, 2) for each in os.getloadavg()],
    }
