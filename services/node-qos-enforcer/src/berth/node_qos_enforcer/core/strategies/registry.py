"""The strategies of this agent, in the order in which they are asked; of two that want the same file, the first counts.

A strategy is one line here. What an operator installs for it (`k8s/components/enforce*`) and what the agent reports of
the kernel follows from it.
"""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.strategies.seam import Strategy
from berth.node_qos_enforcer.core.strategies.suppress import SUPPRESS

STRATEGIES: Final[tuple[Strategy, ...]] = (SUPPRESS,)
