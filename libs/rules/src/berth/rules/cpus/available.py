"""Which CPUs of a node may be given to one more pod that wants CPUs of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Final

from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import CpuLayout

FULL_PCPUS: Final = "FullPCPUs"
"""Bind policy: whole physical cores."""
SPREAD_BY_PCPUS: Final = "SpreadByPCPUs"
"""Bind policy: one thread of each core first."""


def references(pinned: Iterable[Set[int]], given_back: Iterable[Set[int]] = ()) -> Mapping[int, int]:
    """How many hold each CPU; one that nobody holds is absent.

    `pinned` are the CPUs of each pod and Reservation with CPUs of its own. Each set of `given_back` (a Reservation that
    the pod draws on, a pod that leaves for it) takes one holder off each of its CPUs.
    """
    counts = Counter(cpu for cpus in pinned for cpu in cpus)
    for cpus in given_back:
        counts.subtract(cpus)
    return {cpu: count for cpu, count in counts.items() if count > 0}


def available_cpus(
    layout: CpuLayout,
    pinned: Iterable[Set[int]],
    *,
    reserved: Set[int] = NO_CPUS,
    given_back: Iterable[Set[int]] = (),
    sharing_max: int = 1,
) -> frozenset[int]:
    """The CPUs that are neither reserved nor held by `sharing_max` pods already.

    `pinned` and `given_back` are those of `references`; CPUs that the layout does not have any more are nobody's to
    give. `reserved` are never available, whoever gives them back.
    """
    held = references(pinned, given_back)
    return frozenset(cpu for cpu in layout.all - reserved if held.get(cpu, 0) < sharing_max)


def usable_cpus(layout: CpuLayout, free: Set[int], required: str) -> frozenset[int]:
    """Of free CPUs those that a required bind policy can use; another text than the two policies requires nothing.

    FullPCPUs: those of cores that are free as a whole. SpreadByPCPUs: the lowest free CPU of each core. A zone has as
    many CPUs for such a pod as lie within it.
    """
    if required == FULL_PCPUS:
        return frozenset(cpu for core in layout.cores if core.members <= free for cpu in core.cpus)
    if required == SPREAD_BY_PCPUS:
        lowest = (next((cpu for cpu in core.cpus if cpu in free), None) for core in layout.cores)
        return frozenset(cpu for cpu in lowest if cpu is not None)
    return layout.all & free
