"""Starts quota-manager: `python -m berth.quota_manager`."""

import sys

from berth.quota_manager.settings import SERVICE, Settings
from berth.quota_manager.shell import main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
