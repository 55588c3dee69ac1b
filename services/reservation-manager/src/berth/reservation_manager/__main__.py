"""Entry point of reservation-manager."""

from __future__ import annotations

import sys

from berth.reservation_manager.settings import SERVICE, Settings
from berth.reservation_manager.shell import main
from berth.runtime.run import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
