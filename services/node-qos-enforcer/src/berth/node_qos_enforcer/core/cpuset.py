"""The kernel's list form of CPU sets (`0-3,8`), both ways.

Bounded: a text that names CPU ids no machine has is refused before it becomes a set of millions.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.node_qos_enforcer.core.malformed import Malformed, quoted

MAX_CPU = 8_191
"""Highest CPU id accepted; NR_CPUS of distribution kernels is 8192."""
MAX_TEXT = 65_536


def parse_cpuset(text: str, *, field: str = "cpuset") -> frozenset[int]:
    """Parse a CPU list; any order and repetition is accepted, empty text is the empty set.

    Raises:
        Malformed: naming `field`, for anything that is not `id` or `low-high`, and for ids above `MAX_CPU`.
    """
    if len(text) > MAX_TEXT:
        raise Malformed(field, "longer than any CPU list")
    cpus: set[int] = set()
    stripped = text.strip()
    for part in stripped.split(",") if stripped else ():
        low_text, dash, high_text = part.strip().partition("-")
        low = _cpu(low_text, field)
        high = _cpu(high_text, field) if dash else low
        if high < low:
            raise Malformed(field, f"range runs backwards: {quoted(part)}")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def format_cpuset(cpus: Iterable[int]) -> str:
    """Write CPUs in the kernel's own form: ascending, neighbours joined to ranges."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _cpu(text: str, field: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 6 or int(text) > MAX_CPU:
        raise Malformed(field, f"not a CPU id: {quoted(text)}")
    return int(text)
