"""What counts as used memory: the three collect policies of node reports.

Page cache that could be dropped is not use (the default), is use, or is use as far as it is hot. The hot policy needs
the amount of cold pages, which only some kernels tell.
"""

from __future__ import annotations

from typing import Literal

from berth.node_qos_enforcer.core.cgroup_files import MemoryStat
from berth.node_qos_enforcer.core.proc import MemInfo

Policy = Literal["usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"]


def node_memory_bytes(info: MemInfo, policy: Policy = "usageWithoutPageCache", *, cold_bytes: int = 0) -> int:
    """Return the memory in use on the node under a policy, never below zero."""
    if policy == "usageWithoutPageCache":
        return info.total_bytes - info.available_bytes
    with_cache = info.total_bytes - info.free_bytes
    return max(with_cache - cold_bytes, 0) if policy == "usageWithHotPageCache" else with_cache


def cgroup_memory_bytes(
    stat: MemoryStat, policy: Policy = "usageWithoutPageCache", *, cold_bytes: int = 0, charged_bytes: int = 0
) -> int:
    """Return the memory in use of a control group under a policy.

    Args:
        stat: its memory.stat.
        policy: what counts.
        cold_bytes: page cache that nobody touched for a while; only the hot policy asks.
        charged_bytes: `memory.usage_in_bytes` or `memory.current`; only `usageWithPageCache` asks.
    """
    if policy == "usageWithPageCache":
        return charged_bytes
    if policy == "usageWithHotPageCache":
        return max(stat.usage_without_page_cache + stat.inactive_file + stat.active_file - cold_bytes, 0)
    return stat.usage_without_page_cache
