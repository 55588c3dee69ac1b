"""Starts yarn-operator: `python -m berth.yarn_operator`."""

import sys

from berth.runtime import run
from berth.yarn_operator.settings import SERVICE, Settings
from berth.yarn_operator.shell import main

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
