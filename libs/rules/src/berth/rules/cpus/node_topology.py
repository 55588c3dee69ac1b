"""From a NodeResourceTopology to the CPUs and NUMA nodes of its node, and what in it cannot be used.

A fault in the CPUs, in what is reserved or in the zones leaves the node without all three: nobody can tell what the
rest of such a report is worth, and a CPU that is taken for free by mistake is given to two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import Quantity, View
from berth.contracts.state import NodeResourceTopology
from berth.contracts.topology import CoreCpus, NodeTopology, PinnedPod, ZoneCapacity
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.amplification import read_ratios
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset
from berth.rules.cpus.kubelet import NO_POLICY, CpuManager, PodCpus, numa_policy, read_cpu_manager
from berth.rules.cpus.layout import CpuLayout, read_layout
from berth.rules.cpus.node_reservation import cpus_of, read_node_reservation
from berth.rules.cpus.reserved import reserved_cpus, zone_cpu_milli

ZONES_MAX: Final = 256
ENTRIES_MAX: Final = 1_024
RESOURCES_MAX: Final = 64
PINNED_MAX: Final = 1_024
PROBLEMS_MAX: Final = 16
ZONED: Final = frozenset(
    {names.CPU, names.MEMORY, names.BATCH_CPU, names.BATCH_MEMORY, names.MID_CPU, names.MID_MEMORY}
)
"""Resources of zones that are counted, beside hugepages of each size; devices are counted one by one."""

_HUGEPAGES: Final = "hugepages-"
_NODE: Final = "Node"
_NAME: Final = re.compile(r"node-(0|[1-9][0-9]{0,8})", re.ASCII)
_POLICIES: Final = "topologyPolicies[0]"
_QUOTED_MAX: Final = 60


class _Resource(View, frozen=True, kw_only=True):
    name: str
    allocatable: Quantity


class _Zone(View, frozen=True, kw_only=True):
    name: str = ""
    type: str = ""
    resources: list[_Resource] | None = None


def topology_of(seen: NodeResourceTopology) -> NodeTopology:
    """The topology of the node that the object is named after."""
    annotations = seen.annotations
    layout, problems = None, list[Problem]()
    read = read_layout(annotations)
    if isinstance(read, Problem):
        problems.append(read)
    else:
        layout = read
    held = reserved_cpus(annotations)
    problems += held.problems
    zones = _zones(seen.zones, problems)
    is_usable = not problems
    reserved = held.cpus | (cpus_of(read_node_reservation(annotations)[0], layout) if layout is not None else NO_CPUS)
    reserved = reserved & layout.all if layout is not None and is_usable else NO_CPUS
    manager = read_cpu_manager(annotations)
    manager = CpuManager() if isinstance(manager, Problem) else manager
    return NodeTopology(
        node=seen.name,
        version=seen.version,
        cores=_cores(layout) if layout is not None and is_usable else [],
        zones=_capacities(zones, layout, reserved) if is_usable else [],
        reserved=sorted(reserved),
        cpu_manager=manager.policy[:_QUOTED_MAX],
        full_cores=manager.full_cores_only,
        policy=_policy(seen.policies, problems),
        cpu_ratio=_ratio(annotations, problems),
        problems=problems[:PROBLEMS_MAX],
        pinned=[_pinned(each) for each in held.by_kubelet[:PINNED_MAX]] if is_usable else [],
    )


def zone_amounts(seen: NodeResourceTopology) -> dict[int, Amounts]:
    """What each NUMA node offers, as it is written; one that cannot be read is left out."""
    return _zones(seen.zones, [])


def _pinned(pod: PodCpus) -> PinnedPod:
    cpus = format_cpuset(pod.cpus)
    return PinnedPod(uid=pod.uid, namespace=pod.namespace, name=pod.name, cpus=cpus)


def _cores(layout: CpuLayout) -> list[CoreCpus]:
    return [CoreCpus(zone=core.zone, socket=core.socket, cpus=list(core.cpus)) for core in layout.cores]


def _capacities(zones: Mapping[int, Amounts], layout: CpuLayout | None, reserved: frozenset[int]) -> list[ZoneCapacity]:
    cpu = zone_cpu_milli(
        {zone: amounts.get(names.CPU, 0) for zone, amounts in zones.items()},
        layout.zone_cpus if layout is not None else {},
        reserved,
    )
    return [
        ZoneCapacity(zone=zone, amounts=amounts | ({names.CPU: max(0, cpu[zone])} if names.CPU in amounts else {}))
        for zone, amounts in sorted(zones.items())
    ]


def _zones(given: Iterable[dict[str, Any]], problems: list[Problem]) -> dict[int, Amounts]:
    """What each zone offers. Entries that are no NUMA nodes are of others, and not looked at."""
    found: dict[int, Amounts] = {}
    for place, entry in enumerate(given):
        field = f"zones[{place}]"
        if place >= ENTRIES_MAX or len(found) > ZONES_MAX:
            problems.append(Problem(field="zones", message=f"has more than {ZONES_MAX} NUMA nodes"))
            return found
        if entry.get("type") != _NODE or _NAME.fullmatch(str(entry.get("name"))[:_QUOTED_MAX]) is None:
            continue
        zone = int(str(entry["name"]).removeprefix("node-"))
        amounts = _amounts(entry, field)
        if isinstance(amounts, Problem):
            problems.append(amounts)
        elif zone in found:
            problems.append(Problem(field=f"{field}.name", message=f"has NUMA node {zone} twice"))
        else:
            found[zone] = amounts
    return found


def _amounts(entry: dict[str, Any], field: str) -> Amounts | Problem:
    try:
        zone = msgspec.convert(entry, _Zone)
    except msgspec.ValidationError as error:
        return Problem(field=field, message=f"is not readable: {str(error)[:200]}")
    resources = zone.resources or []
    if len(resources) > RESOURCES_MAX:
        return Problem(field=f"{field}.resources", message=f"has more than {RESOURCES_MAX} entries")
    offered = {each.name: each.allocatable for each in resources if _is_zoned(each.name)}
    amounts, unread = parse_amounts(offered, f"{field}.resources")
    return Problem(field=unread[0][0], message=unread[0][1]) if unread else dict(sorted(amounts.items()))


def _is_zoned(name: str) -> bool:
    return name in ZONED or name.startswith(_HUGEPAGES)


def _policy(policies: list[str], problems: list[Problem]) -> str:
    reported = policies[0] if policies else ""
    policy = numa_policy(reported, "")
    if not policy and reported not in ("", NO_POLICY):
        problems.append(Problem(field=_POLICIES, message=f"{reported[:_QUOTED_MAX]!r} is no policy that is known"))
    return policy


def _ratio(annotations: Mapping[str, str], problems: list[Problem]) -> float:
    ratios = read_ratios(annotations)
    if isinstance(ratios, Problem):
        problems.append(ratios)
        return 0.0
    return ratios.get(names.CPU, 0.0)
