"""CPUs for pods of class SYSTEM and for processes of the system, which a node's annotation sets apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_NODE_SYSTEM_QOS
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.cpuset import NO_CPUS, read_cpuset


class SystemCpus(NamedTuple):
    """`exclusive`: nobody else may use them."""

    cpus: frozenset[int] = NO_CPUS
    exclusive: bool = True

    @property
    def kept(self) -> frozenset[int]:
        """Those that are kept from everybody else."""
        return self.cpus if self.exclusive else NO_CPUS


NONE = SystemCpus()


class _System(msgspec.Struct, frozen=True, rename="camel"):
    cpuset: str = ""
    cpuset_exclusive: bool | None = None


def read_system_cpus(annotations: Mapping[str, str]) -> SystemCpus | Problem:
    """What the annotation says, of a Node or of a NodeResourceTopology; exclusive unless it says otherwise."""
    read = read_annotation(annotations, ANNOTATION_NODE_SYSTEM_QOS, _System)
    if read is None:
        return NONE
    if isinstance(read, Problem):
        return read
    cpus = read_cpuset(read.cpuset, f"{annotation_field(ANNOTATION_NODE_SYSTEM_QOS)}.cpuset")
    return cpus if isinstance(cpus, Problem) else SystemCpus(cpus, read.cpuset_exclusive is not False)
