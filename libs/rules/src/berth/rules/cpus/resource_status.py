"""`resource-status`: which CPUs and NUMA nodes a bound pod was given, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import Quantity
from berth.contracts.names import ANNOTATION_RESOURCE_STATUS
from berth.resources.amounts import Amounts, format_amounts, parse_amounts
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset, read_cpuset

FIELD = annotation_field(ANNOTATION_RESOURCE_STATUS)


class ZoneShare(NamedTuple):
    """What a pod was given of one zone."""

    zone: int
    amounts: Amounts


class ResourceStatus(NamedTuple):
    """What a pod was given. `cpus` are its own (empty: it has none), `cpuset` their text as it stands; `zones` are in
    the order of the record."""

    cpus: frozenset[int] = NO_CPUS
    cpuset: str = ""
    zones: tuple[ZoneShare, ...] = ()


NOTHING = ResourceStatus()


class _Zone(msgspec.Struct, frozen=True):
    node: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    resources: dict[str, Quantity] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    cpuset: str = ""
    numa_node_resources: list[_Zone] | None = None


def read_resource_status(annotations: Mapping[str, str]) -> ResourceStatus | Problem:
    """What the record says; a pod without a record has `NOTHING`. A problem names the annotation and what in it."""
    read = read_annotation(annotations, ANNOTATION_RESOURCE_STATUS, _Status)
    if read is None:
        return NOTHING
    if isinstance(read, Problem):
        return read
    cpus = read_cpuset(read.cpuset, f"{FIELD}.cpuset")
    if isinstance(cpus, Problem):
        return cpus
    zones = []
    for place, each in enumerate(read.numa_node_resources or ()):
        amounts, problems = parse_amounts(each.resources, f"{FIELD}.numaNodeResources[{place}].resources")
        if problems:
            field, message = problems[0]
            return Problem(field=field, message=message)
        zones.append(ZoneShare(each.node, amounts))
    return ResourceStatus(cpus, read.cpuset.strip(), tuple(zones))


def format_resource_status(cpus: Iterable[int], zones: Iterable[ZoneShare] = ()) -> str:
    """The text of the record: CPUs as a list, zones in the order given; what there is none of is left out."""
    content: dict[str, object] = {}
    if cpuset := format_cpuset(cpus):
        content["cpuset"] = cpuset
    if shares := [{"node": each.zone, "resources": format_amounts(each.amounts)} for each in zones]:
        content["numaNodeResources"] = shares
    return msgspec.json.encode(content).decode()
