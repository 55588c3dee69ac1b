"""CPUs that are given to no pod as its own, and what that leaves of the zones."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from berth.contracts.base import Problem
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.kubelet import PodCpus, read_cpu_manager, read_pod_cpu_allocs
from berth.rules.cpus.node_reservation import read_node_reservation
from berth.rules.cpus.system_qos import read_system_cpus


class ReservedCpus(NamedTuple):
    """The CPUs, those among them that kubelet gave to pods by pod, and what could not be read. While there is a problem
    nobody knows whose CPUs the others are: none of them may be given to a pod as its own."""

    cpus: frozenset[int] = NO_CPUS
    problems: tuple[Problem, ...] = ()
    by_kubelet: tuple[PodCpus, ...] = ()


def reserved_cpus(topology: Mapping[str, str]) -> ReservedCpus:
    """By the annotations of a NodeResourceTopology: what kubelet gave to pods, kubelet's own, what the node's
    reservation lists, and those of the system that are exclusive."""
    cpus: set[int] = set()
    problems: list[Problem] = []
    by_kubelet: tuple[PodCpus, ...] = ()
    allocations = read_pod_cpu_allocs(topology)
    if isinstance(allocations, Problem):
        problems.append(allocations)
    else:
        by_kubelet = tuple(each for each in allocations if each.managed_by_kubelet and each.uid and each.cpus)
        cpus |= {cpu for each in by_kubelet for cpu in each.cpus}
    manager = read_cpu_manager(topology)
    if isinstance(manager, Problem):
        problems.append(manager)
    else:
        cpus |= manager.reserved
    reservation, problem = read_node_reservation(topology)
    if problem is not None:
        problems.append(problem)
    cpus |= reservation.cpus
    system = read_system_cpus(topology)
    if isinstance(system, Problem):
        problems.append(system)
    else:
        cpus |= system.kept
    return ReservedCpus(frozenset(cpus), tuple(problems), by_kubelet)


def zone_cpu_milli(
    reported_milli: Mapping[int, int], zone_cpus: Mapping[int, Set[int]], reserved: Set[int]
) -> dict[int, int]:
    """What of each zone's cpu is left, in thousandths: a whole one less for each reserved CPU within it.

    A zone that reports none keeps none; another one may fall below 0, where it reports less cpu than it has CPUs.
    """
    return {
        zone: milli - 1000 * len(zone_cpus.get(zone, NO_CPUS) & reserved) if milli else milli
        for zone, milli in reported_milli.items()
    }
