"""What a NodeResourceTopology says of its node: the CPUs that pods may have as their own, and what NUMA nodes have.

Read with no code of device-inventory. A fault in the CPUs, in what is reserved or in the NUMA nodes leaves nothing of
it: nobody can tell what the rest is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.amplification import amplify, read_ratios
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import CpuLayout, read_layout
from berth.rules.cpus.node_reservation import cpus_of, read_node_reservation
from berth.rules.cpus.reserved import reserved_cpus, zone_cpu_milli

Share = tuple[str, str]
"""NUMA node and resource."""


class Layout(NamedTuple):
    """`cpus` may be given to pods as their own. `zones` is what pods may have of NUMA nodes, by id and resource."""

    cpus: frozenset[int] = NO_CPUS
    zones: Mapping[Share, int] = {}


NOWHERE: Final = Layout()
_PLAIN: Final = frozenset(
    {names.CPU, names.MEMORY, names.BATCH_CPU, names.BATCH_MEMORY, names.MID_CPU, names.MID_MEMORY}
)
"""What NUMA nodes are judged by, beside hugepages of each size; devices are judged one by one."""


class _Resource(kube.View, frozen=True, kw_only=True):
    name: str
    allocatable: kube.Quantity


class _Zone(kube.View, frozen=True, kw_only=True):
    name: str = ""
    type: str = ""
    resources: list[_Resource] | None = None


def layout_of(seen: kube.NodeResourceTopology, node: Mapping[str, str]) -> Layout:
    """By the topology object of a node, and the annotations of the node."""
    notes = seen.metadata.annotations or {}
    layout, held = read_layout(notes), reserved_cpus(notes)
    zones = _zones(seen.zones or ())
    if isinstance(layout, Problem) or held.problems or zones is None:
        return NOWHERE
    reserved = held.cpus
    if layout is not None:
        reserved = (reserved | cpus_of(read_node_reservation(notes)[0], layout)) & layout.all
    cpus = layout.all - reserved if layout is not None else NO_CPUS
    return Layout(cpus, dict(_shares(zones, layout, reserved, _ratio(notes) or _ratio(node) or 1.0)))


def _shares(
    zones: Mapping[int, Amounts], layout: CpuLayout | None, reserved: frozenset[int], ratio: float
) -> Iterable[tuple[Share, int]]:
    reported = {zone: amounts.get(names.CPU, 0) for zone, amounts in zones.items()}
    cpu = zone_cpu_milli(reported, layout.zone_cpus if layout is not None else {}, reserved)
    for zone, amounts in zones.items():
        for name, amount in amounts.items():
            shown = amplify(max(0, cpu[zone]), max(1.0, ratio)) if name == names.CPU else amount
            yield (str(zone), name), shown


def _zones(given: Iterable[dict[str, Any]]) -> dict[int, Amounts] | None:
    """Of each NUMA node; None when they cannot be read."""
    found: dict[int, Amounts] = {}
    for entry in given:
        number = str(entry.get("name")).removeprefix("node-")
        if entry.get("type") != "Node" or not number.isdecimal() or len(number) > 9:
            continue
        try:
            read = msgspec.convert(entry, _Zone)
        except msgspec.ValidationError:
            return None
        offered = {each.name: each.allocatable for each in read.resources or () if _is_judged(each.name)}
        amounts, problems = parse_amounts(offered, "")
        if problems or int(number) in found:
            return None
        found[int(number)] = amounts
    return found


def _is_judged(name: str) -> bool:
    return name in _PLAIN or name.startswith("hugepages-")


def _ratio(annotations: Mapping[str, str]) -> float:
    ratios = read_ratios(annotations)
    return ratios.get(names.CPU, 0.0) if not isinstance(ratios, Problem) else 0.0
