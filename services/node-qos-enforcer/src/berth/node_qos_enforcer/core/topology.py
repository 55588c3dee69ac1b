"""The CPUs of a machine: which core, socket and NUMA node each belongs to.

The rows are those of `lscpu -e`, read from the kernel's own `/sys/devices/system/cpu` by
`berth.node_qos_enforcer.machine`, without a child process.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_PROCESSORS = 8_192


class Processor(NamedTuple):
    """One logical CPU. Core ids are unique within their socket only."""

    cpu: int
    core: int
    socket: int
    node: int


def in_order(processors: list[Processor]) -> list[Processor]:
    """Sort as every report of a topology is sorted: by NUMA node, socket, core, CPU."""
    return sorted(processors, key=lambda row: (row.node, row.socket, row.core, row.cpu))
