"""The cores and NUMA nodes of a node, as its NodeResourceTopology reports them: for answers to people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import Quantity, View
from berth.contracts.state import NodeResourceTopology
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.kubelet import PodCpus, read_pod_cpu_allocs
from berth.rules.cpus.layout import CpuLayout, read_layout
from berth.rules.cpus.reserved import reserved_cpus

ZONES_MAX: Final = 256
NUMA_NODE: Final = "Node"
"""The type of a zone that is a NUMA node; those of other types are other components' own."""
_NAME: Final = re.compile(r"node-(0|[1-9][0-9]{0,8})", re.ASCII)


class ReportedTopology(NamedTuple):
    """`zones` has what each NUMA node offers, by id; `kept` CPUs that nobody is given, `by_kubelet` those that kubelet
    has given to pods."""

    zones: Mapping[int, Amounts] = {}
    layout: CpuLayout | None = None
    kept: frozenset[int] = NO_CPUS
    by_kubelet: tuple[PodCpus, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Resource(View, frozen=True, kw_only=True):
    name: str
    allocatable: Quantity


class _Zone(View, frozen=True, kw_only=True):
    name: str = ""
    type: str = ""
    resources: list[_Resource] | None = None


def reported_topology(seen: NodeResourceTopology | None) -> ReportedTopology:
    """What the object says; nothing where there is none. What cannot be read is left out, and named."""
    if seen is None:
        return ReportedTopology()
    problems: list[Problem] = []
    layout = read_layout(seen.annotations)
    if isinstance(layout, Problem):
        problems.append(layout)
        layout = None
    allocations = read_pod_cpu_allocs(seen.annotations)
    reserved = reserved_cpus(seen.annotations)
    problems += reserved.problems
    zones = _zones(seen.zones, problems)
    return ReportedTopology(
        zones=dict(sorted(zones.items())),
        layout=layout,
        kept=reserved.cpus,
        by_kubelet=() if isinstance(allocations, Problem) else tuple(allocations),
        problems=tuple(problems),
    )


def _zones(listed: Iterable[dict[str, Any]], problems: list[Problem]) -> dict[int, Amounts]:
    found: dict[int, Amounts] = {}
    for place, raw in enumerate(listed):
        field = f"zones[{place}]"
        if len(found) == ZONES_MAX:
            problems.append(Problem(field=field, message=f"is left out: there are more than {ZONES_MAX}"))
            break
        try:
            zone = msgspec.convert(raw, _Zone)
        except msgspec.ValidationError as error:
            problems.append(Problem(field=field, message=f"cannot be read: {str(error)[:200]}"))
            continue
        name = _NAME.fullmatch(zone.name)
        if zone.type != NUMA_NODE or name is None:
            continue
        offered = {each.name: each.allocatable for each in zone.resources or ()}
        amounts, wrong = parse_amounts(offered, f"{field}.resources")
        problems += [Problem(field=at, message=message) for at, message in wrong]
        found[int(name[1])] = amounts
    return found
