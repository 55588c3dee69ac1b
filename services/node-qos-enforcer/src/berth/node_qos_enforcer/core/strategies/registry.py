"""The strategies of this agent, in the order in which they are asked; of two that want the same file, the first counts.

A strategy is one line here. What an operator installs for it (`k8s/components/enforce*`) and what the agent reports of
the kernel follows from it.
"""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.strategies.batch_limits import BATCH_LIMITS
from berth.node_qos_enforcer.core.strategies.cpu_burst import CPU_BURST_STRATEGY
from berth.node_qos_enforcer.core.strategies.cpu_normalization import CPU_NORMALIZATION
from berth.node_qos_enforcer.core.strategies.memory_qos import MEMORY_QOS_STRATEGY
from berth.node_qos_enforcer.core.strategies.seam import Strategy
from berth.node_qos_enforcer.core.strategies.suppress import SUPPRESS

STRATEGIES: Final[tuple[Strategy, ...]] = (
    SUPPRESS,
    BATCH_LIMITS,
    CPU_NORMALIZATION,
    CPU_BURST_STRATEGY,
    MEMORY_QOS_STRATEGY,
)
