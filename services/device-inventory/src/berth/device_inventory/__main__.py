"""Starts device-inventory: `python -m berth.device_inventory`."""

import sys

from berth.device_inventory.settings import Settings
from berth.device_inventory.shell import SERVICE, main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
