"""Entry point of the placement solver."""

from __future__ import annotations

import sys

from berth.placement_solver.settings import Settings
from berth.placement_solver.shell import main
from berth.runtime.run import run

if __name__ == "__main__":
    sys.exit(run("placement-solver", Settings, main))
