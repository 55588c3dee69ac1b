"""Entry point: `python -m berth.node_qos_enforcer`."""

from __future__ import annotations

import os
import sys

from berth.node_qos_enforcer.settings import Settings, with_kubernetes_name
from berth.node_qos_enforcer.shell import SERVICE, main
from berth.runtime import run

if __name__ == "__main__":
    sys.exit(run(SERVICE, Settings, main, environ=with_kubernetes_name(os.environ)))
