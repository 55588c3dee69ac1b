"""Starts recorder: `python -m berth.recorder`."""

import sys

from berth.recorder.settings import SERVICE, Settings
from berth.recorder.shell import main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
