"""Starts slo-manager: `python -m berth.slo_manager`."""

import sys

from berth.runtime import run
from berth.slo_manager.settings import SERVICE, Settings
from berth.slo_manager.shell import main

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
