"""Entry point of cluster-writer."""

from __future__ import annotations

import sys

from berth.cluster_writer.settings import Settings
from berth.cluster_writer.shell import main
from berth.runtime.run import run

if __name__ == "__main__":
    sys.exit(run("cluster-writer", Settings, main))
