"""CPU lists of kernel files, which a parser of this package refuses in the way of the others."""

from __future__ import annotations

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.rules.cpus.cpuset import read_cpuset


def parse_cpuset(text: str, *, field: str = "cpuset") -> frozenset[int]:
    """Parse a CPU list; any order and repetition is accepted, empty text is the empty set.

    Raises:
        Malformed: naming `field`, as `read_cpuset` does.
    """
    cpus = read_cpuset(text, field)
    if isinstance(cpus, Problem):
        raise Malformed(cpus.field, cpus.message)
    return cpus
