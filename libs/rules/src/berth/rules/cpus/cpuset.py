"""The kernel's list form of CPU sets (`0-3,8`), both ways.

Bounded: a text that names CPU ids no machine has is refused before it becomes a set of millions, and a text that names
the same CPUs again and again costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from berth.contracts.base import Problem

CPU_MAX: Final = 8_191
"""Highest CPU id accepted; NR_CPUS of distribution kernels is 8192."""
TEXT_LENGTH_MAX: Final = 65_536
REMEMBERED: Final = 64
REMEMBERED_LENGTH: Final = 256
"""Of so many lists that are not longer the result is kept: most containers of a node have one of few."""
NO_CPUS: Final = frozenset[int]()

_QUOTED_MAX: Final = 60


def read_cpuset(text: str, field: str) -> frozenset[int] | Problem:
    """The CPUs that a list names, in any order and with repetitions; empty text is the empty set.

    A problem names `field`: whatever is not `id` or `low-high`, and ids above `CPU_MAX`.
    """
    if len(text) > TEXT_LENGTH_MAX:
        return Problem(field=field, message="is longer than any CPU list")
    return _read(text, field) if len(text) > REMEMBERED_LENGTH else _remembered(text, field)


def _read(text: str, field: str) -> frozenset[int] | Problem:
    bits = 0
    stripped = text.strip()
    for part in stripped.split(",") if stripped else ():
        low_text, dash, high_text = part.strip().partition("-")
        low = _cpu(low_text)
        high = _cpu(high_text) if dash else low
        if low is None or high is None:
            return Problem(field=field, message=f"is not a CPU id: {_quoted(low_text if low is None else high_text)}")
        if high < low:
            return Problem(field=field, message=f"range runs backwards: {_quoted(part)}")
        bits |= (2 << high) - (1 << low)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1) if bits else NO_CPUS


_remembered = lru_cache(REMEMBERED)(_read)


def format_cpuset(cpus: Iterable[int]) -> str:
    """The kernel's own form: ascending, neighbours joined to ranges."""
    return _formatted(cpus if isinstance(cpus, frozenset) else frozenset(cpus))


@lru_cache(REMEMBERED)
def _formatted(cpus: frozenset[int]) -> str:
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _cpu(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 6 or int(text) > CPU_MAX:
        return None
    return int(text)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED_MAX else text[:_QUOTED_MAX] + "...")
