"""Starts cluster-watcher: `python -m berth.cluster_watcher`."""

import sys

from berth.cluster_watcher.settings import Settings
from berth.cluster_watcher.shell import SERVICE, main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main))
