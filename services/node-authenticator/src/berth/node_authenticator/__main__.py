"""Starts node-authenticator: `python -m berth.node_authenticator`."""

import sys

from berth.node_authenticator.settings import SERVICE, Settings
from berth.node_authenticator.shell import main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
