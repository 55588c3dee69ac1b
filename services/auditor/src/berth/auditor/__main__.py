"""Starts auditor: `python -m berth.auditor`."""

import sys

from berth.auditor.settings import SERVICE, Settings
from berth.auditor.shell import main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
