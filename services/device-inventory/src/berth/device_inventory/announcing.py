"""What is asked of the cluster, and announced, about a node: messages with their subjects and ids."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.command import ApplyObject, DeleteObject, PatchNode, PatchObject, ReportPod
from berth.contracts.event import FindingReported, NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.subjects import command_subject, event_subject
from berth.device_inventory.core.changes import changes
from berth.device_inventory.core.runtime import CORRECTED, Report
from berth.device_inventory.settings import SERVICE
from berth.runtime import Command, Event, Moment

PROBLEMS_SHOWN: Final = 5


class Kind(NamedTuple):
    """A kind of object: its name, and the plural by which subjects know it."""

    name: str
    plural: str


DEVICE: Final = Kind("Device", "devices")
LAYOUT: Final = Kind("NodeResourceTopology", "noderesourcetopologies")
CLUSTER_NETWORK: Final = Kind("ClusterNetworkTopology", "clusternetworktopologies")


def node_command(patch: PatchNode, at: Moment) -> Command:
    """A node's labels, annotations or amounts are to change."""
    return Command(command_subject("patch", "nodes", patch.name), patch, id=f"{SERVICE}.{patch.uid}.{at.ms}")


def status_command(patch: PatchObject, at: Moment) -> Command:
    """The network's status is to change; the next one says all of it again, so this one may be lost."""
    subject = command_subject("patch", CLUSTER_NETWORK.plural, patch.name)
    return Command(subject, patch, id=f"{SERVICE}.{patch.uid}.{at.ms}", may_drop=True)


def object_command(kind: Kind, request: ApplyObject | DeleteObject, at: Moment) -> Command:
    """An object of a node is to be made, changed or deleted."""
    subject = command_subject("delete" if isinstance(request, DeleteObject) else "apply", kind.plural, request.name)
    return Command(subject, request, id=f"{SERVICE}.{subject}.{at.ms}")


def refused(
    kind: Kind, name: str, before: list[Problem] | None, problems: list[Problem] | None, at: Moment
) -> list[Event]:
    """That an object has problems that it did not have; `before` is None where nothing was published of it."""
    if not problems or problems == before:
        return []
    return [
        Event(
            event_subject("object", "refused", kind.plural, name),
            ObjectRefused(kind=kind.name, name=name, problems=problems),
            id=f"{SERVICE}.{name}.{kind.plural}.{at.ms}",
            level="warning",
            text=f"{kind.name} object has problems",
            fields={"problems": [f"{each.field}: {each.message}" for each in problems[:PROBLEMS_SHOWN]]},
        )
    ]


def device_events(name: str, published: NodeInventory | None, wanted: NodeInventory | None, at: Moment) -> list[Event]:
    """What is new since the last published inventory. A first sight of healthy devices is announced, too."""
    events = [
        Event(
            event_subject("node", "changed", name),
            NodeChanged(node=name, message=sentence),
            id=f"{SERVICE}.{name}.{sentence}.{at.ms}",
            level="info",
            text="devices changed",
            fields={"node": name, "what": sentence},
        )
        for sentence in changes(published, wanted)
    ]
    known = published.problems if published is not None else []
    return [*events, *refused(DEVICE, name, known, wanted.problems if wanted is not None else None, at)]


def report_command(report: Report) -> Command:
    """What people are to read at the pod."""
    about = report.finding
    message = ReportPod(
        namespace=about.namespace,
        name=about.pod,
        uid=about.uid,
        id=report.id,
        reason=report.reason,
        message=report.message,
        warning=about.kind != CORRECTED,
    )
    return Command(
        command_subject("report", "pods", about.namespace, about.pod), message, id=f"{SERVICE}.{about.uid}.{report.id}"
    )


def report_event(node: str, report: Report, at: Moment) -> Event:
    """The same for programs; also that it is over."""
    about = report.finding
    message = FindingReported(
        namespace=about.namespace,
        name=about.pod,
        uid=about.uid,
        node=node,
        kind=about.kind,
        message=about.message,
        container=about.container,
        lasts=report.lasts,
    )
    return Event(
        event_subject("finding", "reported", about.namespace, about.pod),
        message,
        id=f"{SERVICE}.{report.id}.{report.lasts}.{at.ms}",
        level="warning" if report.lasts else "info",
        text="a pod has not what it was given" if report.lasts else "a finding is over",
        fields={"node": node, "pod": f"{about.namespace}/{about.pod}", "kind": about.kind, "what": report.message},
    )
