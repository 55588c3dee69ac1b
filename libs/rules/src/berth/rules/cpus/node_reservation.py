"""What a node's annotation keeps for things outside of Kubernetes: CPUs by list or by number, and amounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import Quantity
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.bounded_json import annotation_field, read_annotation, read_json
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset, read_cpuset
from berth.rules.cpus.layout import Core, CpuLayout
from berth.rules.gpu_request import FAMILY

CPUS_ONLY: Final = "ReservedCPUsOnly"
"""The apply policy that takes CPUs and no amounts."""
_TRIMS: Final = ("", "Default")
_FIELD: Final = annotation_field(names.ANNOTATION_NODE_RESERVATION)
_UNTOUCHED: Final = FAMILY | {
    *(names.BATCH_CPU, names.BATCH_MEMORY, names.MID_CPU, names.MID_MEMORY),
    *(names.RDMA, names.FPGA),
}
"""Batch and mid amounts are computed from what is left already, devices are given out one by one."""


class NodeReservation(NamedTuple):
    """What is kept.

    `cpus` are listed; without a list a `number` is to be chosen (`cpus_by_number`). `listed` is the list as it stands.
    `amounts` is all that is kept, its cpu the number of listed CPUs where there is a list; `trims`: the amounts are not
    for pods to use.
    """

    listed: str = ""
    cpus: frozenset[int] = NO_CPUS
    number: int = 0
    amounts: Amounts = {}
    trims: bool = False


NOTHING: Final = NodeReservation()


class _Reservation(msgspec.Struct, frozen=True, rename="camel"):
    resources: dict[str, Quantity] | None = None
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")
    apply_policy: str = ""


def read_node_reservation(annotations: Mapping[str, str]) -> tuple[NodeReservation, Problem | None]:
    """What the annotation of a Node, or of a NodeResourceTopology, keeps; and what in it cannot be used.

    A list that cannot be read keeps nothing, also no amounts. A negative amount keeps nothing of that resource, and the
    rest counts.
    """
    read = read_annotation(annotations, names.ANNOTATION_NODE_RESERVATION, _Reservation)
    if read is None:
        return NOTHING, None
    if isinstance(read, Problem):
        return NOTHING, read
    amounts, problems = parse_amounts(read.resources, f"{_FIELD}.resources", allow_negative=True)
    if problems:
        field, message = problems[0]
        return NOTHING, Problem(field=field, message=message)
    negative = min((name for name, amount in amounts.items() if amount < 0), default="")
    problem = Problem(field=f"{_FIELD}.resources[{negative}]", message="must not be negative") if negative else None
    amounts = {name: amount for name, amount in amounts.items() if amount >= 0}
    trims = read.apply_policy in _TRIMS
    if not read.reserved_cpus:
        return NodeReservation("", NO_CPUS, -(-amounts.get(names.CPU, 0) // 1000), amounts, trims), problem
    cpus = read_cpuset(read.reserved_cpus, f"{_FIELD}.reservedCPUs")
    if isinstance(cpus, Problem):
        return NodeReservation(read.reserved_cpus), cpus
    return NodeReservation(read.reserved_cpus, cpus, 0, amounts | {names.CPU: 1000 * len(cpus)}, trims), problem


def trimmed(allocatable: Mapping[str, int], reservation: NodeReservation) -> Amounts:
    """What of a node's allocatable amounts pods may use: less what is kept, never below 0.

    Amounts that are worked out from what is left (batch, mid) and devices stay as they are.
    """
    if not reservation.trims:
        return dict(allocatable)
    return {
        name: amount if name in _UNTOUCHED else max(0, amount - reservation.amounts.get(name, 0))
        for name, amount in allocatable.items()
    }


def cpus_of(reservation: NodeReservation, layout: CpuLayout) -> frozenset[int]:
    """The CPUs that are kept: the listed ones, else as many as the number says."""
    return reservation.cpus if reservation.listed else cpus_by_number(layout, reservation.number)


def with_listed_cpus(text: str, reservation: NodeReservation, layout: CpuLayout) -> str:
    """The annotation with the CPUs that its number stands for, for readers that know lists alone.

    `text` is what it says and `reservation` what of that was read. One without a number stays as it is, and so does one
    that cannot be read: the next reader has to see that.
    """
    if reservation.listed or reservation.number <= 0:
        return text
    content = read_json(text, dict[str, object], _FIELD)
    if isinstance(content, Problem):
        return text
    content["reservedCPUs"] = format_cpuset(cpus_of(reservation, layout))
    return msgspec.json.encode(content).decode()


def cpus_by_number(layout: CpuLayout, count: int) -> frozenset[int]:
    """Which CPUs a number stands for, as kubelet chooses its own: whole sockets and NUMA nodes that fit, the larger of
    the two first, then whole cores, then single CPUs; each time those of the lowest ids. All where there are no more.
    """
    left = count
    taken: set[int] = set()
    places: list[Mapping[int, frozenset[int]]] = [layout.socket_cpus, layout.zone_cpus]
    for groups in places if len(layout.socket_cpus) <= len(layout.zone_cpus) else places[::-1]:
        for cpus in groups.values():
            if len(cpus) <= left and not cpus & taken:
                taken |= cpus
                left -= len(cpus)
    rest: list[Core] = []
    for core in layout.cores:
        if core.members & taken:
            continue
        if len(core.cpus) <= left:
            taken |= core.members
            left -= len(core.cpus)
        else:
            rest.append(core)
    for cpu in (cpu for core in rest for cpu in core.cpus):
        if left <= 0:
            break
        taken.add(cpu)
        left -= 1
    return frozenset(taken)
