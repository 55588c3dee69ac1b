"""Starts device-inventory: `python -m berth.device_inventory`."""

import sys

from berth.device_inventory.settings import SERVICE, Settings
from berth.device_inventory.shell import main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
