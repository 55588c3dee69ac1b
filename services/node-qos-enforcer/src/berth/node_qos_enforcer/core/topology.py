"""The CPUs of a machine: which core, socket, NUMA node and last-level cache each belongs to.

Two sources give the same rows: `lscpu -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE` (what other agents use, and what people
paste into reports) and the kernel's own `/sys/devices/system/cpu` (read by `berth.node_qos_enforcer.machine`, without
a child process).
"""

from __future__ import annotations

from typing import NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed

MAX_PROCESSORS = 8_192
LSCPU_COLUMNS = 6


class Processor(NamedTuple):
    """One logical CPU. Core ids are unique within their socket only."""

    cpu: int
    core: int
    socket: int
    node: int
    l3: int = 0


def in_order(processors: list[Processor]) -> list[Processor]:
    """Sort as every report of a topology is sorted: by NUMA node, socket, core, CPU."""
    return sorted(processors, key=lambda row: (row.node, row.socket, row.core, row.cpu))


def parse_lscpu(text: str) -> list[Processor]:
    """Parse the extended table of lscpu; the header and offline CPUs drop out because they have no numbers.

    A NUMA node of `-` is node 0 (a kernel without NUMA), a missing L3 is cache 0.

    Raises:
        Malformed: when no CPU is left.
    """
    rows = [row for line in text.splitlines()[: MAX_PROCESSORS + 16] if (row := _row(line.split())) is not None]
    if not rows:
        raise Malformed("lscpu", "no line describes a CPU that is online")
    return in_order(rows)


def _row(words: list[str]) -> Processor | None:
    if len(words) < LSCPU_COLUMNS or words[5] == "no":
        return None
    cpu, node, socket, core, caches = words[:5]
    levels = caches.split(":")
    numbers = [cpu, core, socket, "0" if node == "-" else node, levels[3] if len(levels) > 3 else "0"]
    if not all(number.isascii() and number.isdigit() and len(number) <= 9 for number in numbers):
        return None
    return Processor(*(int(number) for number in numbers))
