"""Entry point: `python -m berth.node_qos_enforcer`; with `--undo` everything is given back once, without a bus."""

from __future__ import annotations

import os
import sys

from berth.node_qos_enforcer.settings import Settings, with_kubernetes_name
from berth.node_qos_enforcer.shell import SERVICE, SWITCH_S, Agent, undo
from berth.runtime import run

if __name__ == "__main__":
    environ = with_kubernetes_name(os.environ)
    if sys.argv[1:] == ["--undo"]:
        sys.exit(undo(environ))
    sys.setswitchinterval(SWITCH_S)
    agent = Agent()
    sys.exit(run(SERVICE, Settings, agent.main, before_bus=agent.before_bus, environ=environ))
