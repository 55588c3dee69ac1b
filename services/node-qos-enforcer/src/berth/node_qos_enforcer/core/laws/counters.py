"""Cycles and instructions of a control group, as the kernel counts them by the processor (`perf_event_open`)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed

CYCLES: Final = 0
INSTRUCTIONS: Final = 1
"""What the kernel calls these events of the hardware."""
FLAGS: Final = 1 << 2 | 1 << 3
"""Of the call: the process is a control group's descriptor (PERF_FLAG_PID_CGROUP); close on exec."""
ENABLE: Final = 0x2400
GROUP: Final = 1
"""The request that a group of counters begins, and that all of the group is meant."""
_TYPE_HARDWARE: Final = 0
_READ_FORMAT: Final = 1 | 2 | 4 | 8
"""Time enabled, time running, ids, the group at once."""
_BITS: Final = 1 | 2
"""Disabled at first; inherited by children."""
_ATTRIBUTE: Final = struct.Struct("=IIQQQQQIIQ")
"""`perf_event_attr` as its first version has it, which every kernel takes: type, size, config, period, sample type,
read format, bits, wake-up, breakpoint type, second config."""
_HEAD: Final = struct.Struct("=QQQ")
_ENTRY: Final = struct.Struct("=QQ")


class Counts(NamedTuple):
    """What was counted, scaled to the whole time where counters had to take turns."""

    cycles: int
    instructions: int


def attribute(event: int) -> bytes:
    """The description of one counter."""
    return _ATTRIBUTE.pack(_TYPE_HARDWARE, _ATTRIBUTE.size, event, 0, 0, _READ_FORMAT, _BITS, 0, 0, 0)


def read_group(data: bytes) -> Counts | None:
    """Read a group of the two counters, cycles first. None: it never ran. Raises Malformed."""
    size = _HEAD.size + 2 * _ENTRY.size
    if len(data) != size:
        raise Malformed("perf", f"a group has {len(data)} bytes, not {size}")
    count, enabled, running = _HEAD.unpack_from(data)
    if count != 2:
        raise Malformed("perf", f"a group has {count} counters, not 2")
    if not running:
        return None
    cycles, instructions = (_ENTRY.unpack_from(data, _HEAD.size + at * _ENTRY.size)[0] for at in (0, 1))
    return Counts(cycles * enabled // running, instructions * enabled // running)


def total(counts: Iterable[Counts | None]) -> Counts | None:
    """Of all CPUs together; None where nothing was carried out, so that no ratio can be had."""
    known = [each for each in counts if each is not None]
    found = Counts(sum(each.cycles for each in known), sum(each.instructions for each in known))
    return found if found.instructions > 0 else None
