"""Starts slo-manager: `python -m berth.slo_manager`."""

import sys

from berth.runtime import run
from berth.slo_manager.settings import Settings
from berth.slo_manager.shell import SERVICE, main

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
