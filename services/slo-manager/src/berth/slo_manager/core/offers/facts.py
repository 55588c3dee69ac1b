"""What is known of a node when its offers are worked out. Amounts are physical: thousandths of a core, and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_RAW_ALLOCATABLE, CPU, LABEL_QOS, MEMORY, MID_CPU, MID_MEMORY
from berth.resources.amounts import Amounts
from berth.rules.cpus.node_reservation import read_node_reservation
from berth.rules.cpus.qos import BATCH, FREE, LSE, MID, PROD, priority_class_or_default
from berth.rules.cpus.resource_status import read_resource_status
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.metric import HostApplicationReport, Metric, PodReport

RESOURCES: Final = (CPU, MEMORY)
LOW: Final = frozenset({BATCH, FREE})
"""Priority classes that live on what is lent, and never make it less."""
_ALIVE: Final = frozenset({"", "Pending", "Running"})
_MID: Final = {CPU: MID_CPU, MEMORY: MID_MEMORY}


class Holder(NamedTuple):
    """A pod on its node. `zones`: NUMA nodes that it was given; none: any."""

    name: tuple[str, str]
    uid: str
    requests: Amounts
    priority_class: str
    is_exclusive: bool
    zones: tuple[int, ...]


class Measured(NamedTuple):
    """A holder and what it uses; None: nobody has measured it yet."""

    holder: Holder
    usage: Amounts | None


class Facts(NamedTuple):
    """A node.

    `kubelet_reserved` and `annotated` are what is kept from pods: by kubelet, by the node's annotation. `pods` are
    those that make less of what can be lent; `gone` are reports of pods that are no longer there.
    """

    capacity: Amounts
    kubelet_reserved: Amounts
    annotated: Amounts
    system: Amounts
    node_usage: Amounts | None
    pods: tuple[Measured, ...]
    gone: tuple[PodReport, ...]
    host_applications: tuple[HostApplicationReport, ...]
    prod_reclaimable: Amounts | None
    zones: Mapping[int, Amounts]

    def reserved(self, name: str) -> int:
        """What is kept from pods at least."""
        return max(self.kubelet_reserved.get(name, 0), self.annotated.get(name, 0))

    def system_used(self, name: str, *classes: str) -> int:
        """What is used outside of pods, by applications of these priority classes as well."""
        hosted = sum(each.usage.get(name, 0) for each in self.host_applications if each.priority_class in classes)
        return self.system.get(name, 0) + hosted


def holder_of(pod: state.Pod) -> Holder | None:
    """What counts of a pod; None for one that is on no node, or has ended.

    A mid pod asks for what was lent to it; until it is measured it may use that.
    """
    template = pod.template
    if not pod.node or pod.phase not in _ALIVE:
        return None
    priority_class = priority_class_or_default(template.labels, template.priority, template.kube_qos)
    requests = {name: template.requests.get(name, 0) for name in RESOURCES}
    if priority_class == MID:
        requests = {name: max(amount, template.requests.get(_MID[name], 0)) for name, amount in requests.items()}
    given = read_resource_status(template.annotations)
    zones = () if isinstance(given, Problem) else tuple(dict.fromkeys(each.zone for each in given.zones))
    is_exclusive = template.labels.get(LABEL_QOS) == LSE
    return Holder((pod.namespace, pod.name), pod.uid, requests, priority_class, is_exclusive, zones)


def facts_of(
    node: state.Node, report: Metric, *, by_uid: bool, holders: Iterable[Holder], zones: Mapping[int, Amounts]
) -> Facts:
    """Put together what is known.

    Args:
        node: as STATE shows it; its allocatable amounts are less by what its annotation keeps.
        report: the newest.
        by_uid: whether the report calls pods by uid, or by namespace and name.
        holders: the pods that are there.
        zones: allocatable amounts of its NUMA nodes.
    """
    reservation, _ = read_node_reservation(node.annotations)
    raw, _ = capacity_of(node.allocatable, node.annotations)
    is_raw = ANNOTATION_RAW_ALLOCATABLE in node.annotations
    reserved: Amounts = {}
    for name in RESOURCES:
        offered = raw.get(name, 0)
        if reservation.trims and not is_raw and offered > 0:
            offered += reservation.amounts.get(name, 0)
        reserved[name] = max(0, node.capacity.get(name, 0) - offered)
    left = dict(report.pods)
    pods = tuple(_measured(holders, left, by_uid))
    return Facts(
        capacity={name: node.capacity.get(name, 0) for name in RESOURCES},
        kubelet_reserved=reserved,
        annotated={name: reservation.amounts.get(name, 0) for name in RESOURCES},
        system=_system(report),
        node_usage=report.node_usage,
        pods=pods,
        gone=tuple(left.values()),
        host_applications=report.host_applications,
        prod_reclaimable=report.prod_reclaimable,
        zones=zones,
    )


def _system(report: Metric) -> Amounts:
    """What is used outside of pods; where the report does not say it, what nothing in it accounts for."""
    found = dict(report.system_usage)
    for name in RESOURCES:
        if name not in found and report.node_usage is not None and name in report.node_usage:
            of_pods = sum(each.usage.get(name, 0) for each in report.pods.values())
            hosted = sum(each.usage.get(name, 0) for each in report.host_applications)
            found[name] = max(0, report.node_usage[name] - of_pods - hosted)
    return found


def _measured(holders: Iterable[Holder], reports: dict[object, PodReport], by_uid: bool) -> Iterator[Measured]:
    """Each pod that counts, with its report. The reports of pods that are there are taken out of `reports`."""
    for holder in holders:
        report = reports.pop(holder.uid if by_uid else holder.name, None)
        if holder.priority_class in LOW:
            continue
        usage = report.usage if report is not None and all(name in report.usage for name in RESOURCES) else None
        yield Measured(holder, usage)


HOSTED_FOR_BATCH: Final = (PROD, MID)
"""Applications outside of pods that batch work has to leave alone."""
HOSTED_FOR_MID: Final = (PROD,)
"""The same for mid pods."""
