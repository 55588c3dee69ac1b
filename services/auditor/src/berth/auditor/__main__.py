"""Starts auditor: `python -m berth.auditor`."""

import sys

from berth.auditor.settings import Settings
from berth.auditor.shell import SERVICE, main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
