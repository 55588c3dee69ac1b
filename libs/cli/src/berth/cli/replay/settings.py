"""What a replay was asked to do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from berth.cli.errors import CliError

VARIABLE = "BERTH_TRACE_DIR"
MIXED = "mixed"
NODES, PODS = 1000, 10_000
"""Of a workload that is made."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """`timed` 0 fills; above, it divides the trace's times. `rate` 0 creates pods as fast as it goes.

    `generated`: which workload is made instead of a trace that is read, with so many `nodes` and `pods`, by `seed`.
    """

    folder: Path = Path()
    trace: str = "default"
    generated: str = ""
    nodes: int = NODES
    pods: int = PODS
    seed: int = 0
    timed: float = 0.0
    rate: float = 0.0
    solvers: int = 1
    kill: bool = False
    json_file: Path | None = None
    keep: bool = False

    @property
    def named(self) -> str:
        """What is replayed, for people."""
        return self.generated or self.trace


def trace_folder(argument: Path | None) -> Path:
    """The folder given, or that of BERTH_TRACE_DIR. Raises CliError when there is none."""
    named = argument or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None:
        raise CliError(
            f"which trace? Give the folder of the openb trace (its CSV files) as an argument or in {VARIABLE}; "
            "the README says where to get it"
        )
    if not named.is_dir():
        raise CliError(f"{named} is not a folder")
    return named
