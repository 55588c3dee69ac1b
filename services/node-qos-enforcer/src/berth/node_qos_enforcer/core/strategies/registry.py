"""The strategies of this agent, in the order in which they are asked; of two that want the same file, the first counts.

A strategy is one line here. What an operator installs for it (`k8s/components/enforce*`) and what the agent reports of
the kernel follows from it.
"""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.strategies.batch_limits import BATCH_LIMITS
from berth.node_qos_enforcer.core.strategies.block_io import BLOCK_IO
from berth.node_qos_enforcer.core.strategies.caches import CACHES
from berth.node_qos_enforcer.core.strategies.cold_memory import COLD_MEMORY
from berth.node_qos_enforcer.core.strategies.core_scheduling import CORE_SCHEDULING
from berth.node_qos_enforcer.core.strategies.cpu_burst import CPU_BURST_STRATEGY
from berth.node_qos_enforcer.core.strategies.cpu_normalization import CPU_NORMALIZATION
from berth.node_qos_enforcer.core.strategies.group_identity import GROUP_IDENTITY
from berth.node_qos_enforcer.core.strategies.interference import INTERFERENCE
from berth.node_qos_enforcer.core.strategies.kernel_settings import KERNEL_SETTINGS
from berth.node_qos_enforcer.core.strategies.memory_qos import MEMORY_QOS_STRATEGY
from berth.node_qos_enforcer.core.strategies.network import NETWORK
from berth.node_qos_enforcer.core.strategies.oom_scores import OOM_SCORES
from berth.node_qos_enforcer.core.strategies.page_cache import PAGE_CACHE
from berth.node_qos_enforcer.core.strategies.seam import Strategy
from berth.node_qos_enforcer.core.strategies.suppress import SUPPRESS
from berth.node_qos_enforcer.core.strategies.terway import TERWAY_QOS

STRATEGIES: Final[tuple[Strategy, ...]] = (
    SUPPRESS,
    CORE_SCHEDULING,
    GROUP_IDENTITY,
    KERNEL_SETTINGS,
    PAGE_CACHE,
    OOM_SCORES,
    BLOCK_IO,
    CACHES,
    NETWORK,
    TERWAY_QOS,
    COLD_MEMORY,
    BATCH_LIMITS,
    CPU_NORMALIZATION,
    CPU_BURST_STRATEGY,
    MEMORY_QOS_STRATEGY,
    INTERFERENCE,
)
