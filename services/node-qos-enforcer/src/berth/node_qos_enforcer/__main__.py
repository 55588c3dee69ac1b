"""Entry point: `python -m berth.node_qos_enforcer`."""

from __future__ import annotations

import os
import sys

from berth.node_qos_enforcer.settings import Settings, with_kubernetes_name
from berth.node_qos_enforcer.shell import SERVICE, Agent
from berth.runtime import run

if __name__ == "__main__":
    agent = Agent()
    environ = with_kubernetes_name(os.environ)
    sys.exit(run(SERVICE, Settings, agent.main, before_bus=agent.before_bus, environ=environ))
