"""From what the buckets show to what has to be written, patched and announced about one node. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from berth.contracts import names
from berth.contracts.command import ApplyObject, DeleteObject, PatchNode, PatchObject, ReportPod
from berth.contracts.event import FindingReported, NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.network import NetworkLayers
from berth.contracts.node_report import NodeReport
from berth.contracts.state import Device, Node, NodeResourceTopology
from berth.contracts.subjects import command_subject, event_subject, named_key
from berth.contracts.topology import NodeTopology
from berth.device_inventory.core import device_object, topology_object
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.changes import changes
from berth.device_inventory.core.heard import Heard
from berth.device_inventory.core.network import NAME, Network
from berth.device_inventory.core.objects import Objects, Shown, Wish
from berth.device_inventory.core.rendered import Rendered
from berth.device_inventory.core.runtime import CORRECTED, Report, Reported, isolation_label
from berth.device_inventory.core.zone_lending import zones_lent
from berth.device_inventory.settings import SERVICE
from berth.device_inventory.views import (
    DOMAINS,
    LAYERS,
    NETWORK,
    NODE,
    TOPOLOGY,
    AgentView,
    InventoryView,
    NetworkView,
    OfferView,
    PodView,
    RuntimeView,
    StateView,
)
from berth.runtime import Command, Event, Moment, Outcome, Write
from berth.runtime.outcome import NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the knobs decide. `retry_s`: how long a node or an object may take to show what was asked for before it is
    asked for again."""

    sync_nodes: bool = True
    sync_objects: bool = True
    publish_shared: bool = True
    threshold: float = 0.0
    retry_s: float = 30.0


class _Asked(NamedTuple):
    patch: PatchNode
    at: float


class Reconciler:
    """Decides about one node at a time. Times are monotonic seconds."""

    def __init__(
        self,
        rules: Rules,
        view: StateView,
        published: InventoryView,
        agents: AgentView,
        pods: PodView,
        runtimes: RuntimeView,
        network: NetworkView,
        offers: OfferView,
        mark_all: Callable[[], None],
    ) -> None:
        """`mark_all`: every node has to be looked at again."""
        self.view = view
        self.published = published
        self.agents = agents
        self.pods = pods
        self.runtimes = runtimes
        self.network_view = network
        self.offers = offers
        self.network = Network(rules.retry_s)
        self._rules = rules
        self._mark_all = mark_all
        self._asked: dict[str, _Asked] = {}
        self._devices = Objects(device_object.API, retry_s=rules.retry_s)
        self._layouts = Objects(topology_object.API, retry_s=rules.retry_s)
        self._rendered = Rendered()
        self._reported = Reported()
        self._heard = Heard()

    @property
    def held_back(self) -> int:
        """How many reports about pods did not fit the window of their node."""
        return self._reported.held_back

    @property
    def unreadable(self) -> int:
        """How many messages could not be read since the start."""
        views = (self.view, self.agents, self.runtimes, self.pods, self.offers, self.network_view)
        return sum(each.unreadable for each in views)

    @property
    def is_ready(self) -> bool:
        """Before the end of STATE nothing is decided."""
        return self.view.is_at_end

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        return self.view.missing

    @property
    def facts(self) -> dict[str, str | int | float]:
        """For the question for the status."""
        return {
            "nodes": len(self.view.nodes),
            "nodes with devices": len(self.published.messages),
            "nodes with problems": self.published.faulty,
            "nodes with topology": len(self.published.topologies.messages),
            "topologies with problems": self.published.faulty_topologies,
            "nodes that report": len(self.agents.reports),
            "agents that the container runtime asks": len(self.runtimes.runtimes),
            "agents that say nothing any more": ", ".join(sorted(self._heard.silent)[:8]) or "none",
            "reports held back": self._reported.held_back,
            "objects of others": self._of_others(),
            "reports that cannot be": ", ".join(self._rendered.unusable()[:8]) or "none",
            "unreadable messages": self.unreadable,
            "nodes outside of the network": ", ".join(sorted(self.network.domains.outside)[:8]) or "none",
            "view": self.view.missing,
            **{
                f"{kind} {'healthy' if healthy else 'unhealthy'}": count
                for (kind, healthy), count in sorted(self.published.devices.items())
            },
        }

    def names(self) -> list[str]:
        """Every node that may need something."""
        shown = self.view.devices.keys() | self.view.reports.keys() | self.view.nodes.keys()
        shown |= self.agents.reports.keys() | self.agents.withdrawn
        shown |= self.runtimes.runtimes.keys() | self.runtimes.withdrawn
        shown |= {*self.published.keys.values(), *self.published.topologies.keys.values()}
        # The status of the network is that of all nodes.
        return [*sorted(shown | {*self.published.domains.keys.values()}), NETWORK]

    def due(self, at: Moment) -> list[str]:
        """Nodes that were asked to be patched, or whose objects were asked for, and that still do not show it; nodes
        whose agent says nothing any more, or has said more than is reported at a time."""
        late = {name for name, asked in self._asked.items() if at.monotonic - asked.at >= self._rules.retry_s}
        late |= self._heard.due(at.monotonic)
        late |= self._reported.due(at.monotonic)
        late |= {NETWORK} if self.network.is_due(at.monotonic) else set()
        return sorted(late | self._devices.due(at.monotonic) | self._layouts.due(at.monotonic))

    def begin(self) -> None:
        """Another replica was active meanwhile: what it asked for is unknown."""
        self._asked.clear()
        self._devices.begin()
        self._layouts.begin()
        self._reported.clear()
        self._heard.clear()
        self.network.begin()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring INVENTORY in line with Device and NodeResourceTopology, the node with the Device, and both objects with
        what the node's agent reports.

        A node without one of them loses what was counted of it only when the view proves that there is none.
        """
        if name == NETWORK:
            return self._of_network(at)
        outcome = self._of_device(name, at)
        writes = [*self._of_topology(name, at), *self._of_domains(name)]
        commands = self._objects(name, at) if self._rules.sync_objects else []
        reports = self._reported.news(name, self.runtimes.runtimes.get(name), self.pods.of(name), at.monotonic)
        commands += [_report_command(each) for each in reports if each.lasts]
        events = [_report_event(name, each, at) for each in reports]
        return Outcome([*outcome.writes, *writes], [*commands, *outcome.commands], events)

    def _of_topology(self, name: str, at: Moment) -> list[Write]:
        report, topologies = self.view.reports.get(name), self.published.topologies
        if report is None and not self.view.proves_absence_of_report:
            return []
        key, published = named_key(TOPOLOGY, name), topologies.messages.get(name)
        wanted = self._rendered.topology(name, report)
        if (key not in topologies.keys) if wanted is None else (published == wanted):
            return []
        return [Write(key, wanted, _refused(published, wanted, at))]

    def _of_domains(self, name: str) -> list[Write]:
        """Where a node lies. Of one that is not shown nothing is withdrawn before it is proven gone."""
        layers = self.published.layers.messages.get(NAME)
        if layers is not None and not self.network.digest:
            self.network.use(layers)
        node = self.view.nodes.get(name)
        if node is None and not self.view.proves_absence_of_node:
            return []
        if not self.network.digest and not self.network_view.is_settled:
            return []
        key, domains = named_key(DOMAINS, name), self.published.domains
        published = domains.messages.get(name)
        wanted = self.network.see(name, node, published)
        is_right = key not in domains.keys if wanted is None else published == wanted
        return [] if is_right else [Write(key, wanted)]

    def _of_network(self, at: Moment) -> Outcome:
        """The layers, and what their object's status has to say."""
        if not self.network_view.is_settled:
            return NOTHING
        key, topology = named_key(LAYERS, NAME), self.network_view.topology
        published = self.published.layers.messages.get(NAME)
        wanted = self.network.layers(topology, published)
        is_right = key not in self.published.layers.keys if wanted is None else published == wanted
        writes = [] if is_right else [Write(key, wanted, _refused_layers(published, wanted, at))]
        if self.network.use(wanted):
            self._mark_all()
        patch = self.network.status(topology, len(self.view.nodes), at.monotonic)
        return Outcome(writes, [] if patch is None else [_status_command(patch, at)])

    def _objects(self, name: str, at: Moment) -> list[Command]:
        """What to ask for so that the node's objects say what its agent reports."""
        node, report = self.view.nodes.get(name), self.agents.reports.get(name)
        is_over = (node is None and self.view.proves_absence_of_node) or name in self.agents.withdrawn
        now = (at.ms, at.monotonic)
        commands = []
        if self.view.takes_devices:
            device, wanted = self.view.devices.get(name), self._rendered.device_object(name, report)
            is_empty = report is not None and wanted is None
            shown = None if device is None else _shown_device(device, wanted)
            wish = None if wanted is None else _device_wish(wanted)
            request = self._devices.request(name, node, shown, wish, is_over=is_over or is_empty, now=now)
            commands += [] if request is None else [_device_command(request, at)]
        if self.view.takes_topologies and self.pods.is_complete:
            topology, layout = self.view.reports.get(name), self._topology_object(name, node, report)
            is_empty = report is not None and topology_object.PART not in report.parts
            seen = None if topology is None else _shown_topology(topology, layout)
            aim = None if layout is None else Wish(layout, fields=layout.fields, annotations=layout.annotations)
            request = self._layouts.request(name, node, seen, aim, is_over=is_over or is_empty, now=now)
            commands += [] if request is None else [_topology_command(request, at)]
        return commands

    def _topology_object(
        self, name: str, node: Node | None, report: NodeReport | None
    ) -> topology_object.TopologyObject | None:
        """What that object is to say; None where nothing is, or where it cannot be made."""
        if node is None or report is None:
            self._rendered.forget_topology_object(name)
            return None
        pods = self.pods.of(name)
        topology = self._rendered.topology(name, self.view.reports.get(name))
        lent = zones_lent(self.offers.zones.get(name), node, topology)
        return self._rendered.topology_object(name, node, report, pods, lent)

    def _of_others(self) -> int:
        """How many nodes report what an object of another agent says."""
        devices, topologies = self.view.devices, self.view.reports
        return sum(
            (name in devices and not device_object.is_ours(devices[name]))
            or (name in topologies and not topology_object.is_ours(topologies[name]))
            for name in self.agents.reports
        )

    def _of_device(self, name: str, at: Moment) -> Outcome:
        device = self.view.devices.get(name)
        if device is None and not self.view.proves_absence:
            return NOTHING
        key, published = named_key(NODE, name), self.published.messages.get(name)
        wanted = self._rendered.inventory(name, device, self.view.nodes.get(name))
        writes = []
        if (key in self.published.keys) if wanted is None else (published != wanted):
            writes = [Write(key, wanted, _events(name, published, wanted, at))]
        patch = self._patch(name, wanted, at.monotonic)
        return Outcome(writes, [] if patch is None else [_command(patch, at)])

    def _isolation(self, name: str, node: Node, now: float) -> dict[str, str | None]:
        """How the label of isolation is to change."""
        sequence, is_withdrawn = self.runtimes.sequences.get(name), name in self.runtimes.withdrawn
        is_silent = self._heard.is_silent(node, sequence, is_withdrawn=is_withdrawn, now_s=now)
        return isolation_label(node, self.runtimes.runtimes.get(name), is_over=is_silent or is_withdrawn)

    def _patch(self, name: str, inventory: NodeInventory | None, now: float) -> PatchNode | None:
        node = self.view.nodes.get(name)
        patch = None
        if node is None and self.view.proves_absence_of_node:
            self._heard.forget(name)
        if node is not None and not node.deleting and self._rules.sync_nodes:
            patch = node_patch(
                node,
                self.view.devices.get(name),
                inventory,
                publish_shared=self._rules.publish_shared,
                threshold=self._rules.threshold,
                labels=self._isolation(name, node, now),
            )
        if patch is None:
            self._asked.pop(name, None)
            return None
        asked = self._asked.get(name)
        if asked is not None and asked.patch == patch and now - asked.at < self._rules.retry_s:
            return None
        self._asked[name] = _Asked(patch, now)
        return patch


def _command(patch: PatchNode, at: Moment) -> Command:
    return Command(command_subject("patch", "nodes", patch.name), patch, id=f"{SERVICE}.{patch.uid}.{at.ms}")


def _status_command(patch: PatchObject, at: Moment) -> Command:
    subject = command_subject("patch", "clusternetworktopologies", patch.name)
    return Command(subject, patch, id=f"{SERVICE}.{patch.uid}.{at.ms}", may_drop=True)


def _refused_layers(published: NetworkLayers | None, wanted: NetworkLayers | None, at: Moment) -> list[Event]:
    """That the ClusterNetworkTopology has problems that it did not have."""
    if wanted is None or not wanted.problems or (published is not None and published.problems == wanted.problems):
        return []
    return [
        Event(
            event_subject("object", "refused", "clusternetworktopologies", wanted.name),
            ObjectRefused(kind="ClusterNetworkTopology", name=wanted.name, problems=wanted.problems),
            id=f"{SERVICE}.{LAYERS}.{at.ms}",
            level="warning",
            text="ClusterNetworkTopology object has problems",
            fields={"problems": [f"{each.field}: {each.message}" for each in wanted.problems[:5]]},
        )
    ]


def _report_command(report: Report) -> Command:
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


def _report_event(node: str, report: Report, at: Moment) -> Event:
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


def _shown_device(device: Device, wanted: device_object.DeviceObject | None) -> Shown:
    is_right = wanted is not None and device_object.shows(device, wanted)
    return Shown(device.uid, device_object.is_ours(device), is_right, device.deleting, device.annotations)


def _shown_topology(topology: NodeResourceTopology, wanted: topology_object.TopologyObject | None) -> Shown:
    is_right = wanted is not None and topology_object.shows(topology, wanted)
    is_ours = topology_object.is_ours(topology)
    return Shown(topology.uid, is_ours, is_right, topology.deleting, topology.annotations)


def _device_wish(wanted: device_object.DeviceObject) -> Wish:
    about = (wanted.annotations[names.ANNOTATION_REPORT], wanted.annotations[names.ANNOTATION_KUBELET_CARDS])
    return Wish(about, spec=wanted.spec, labels=wanted.labels, annotations=wanted.annotations)


def _device_command(request: ApplyObject | DeleteObject, at: Moment) -> Command:
    if isinstance(request, DeleteObject):
        subject = command_subject("delete", "devices", request.name)
    else:
        subject = command_subject("apply", "devices", request.name)
    return Command(subject, request, id=f"{SERVICE}.{subject}.{at.ms}")


def _topology_command(request: ApplyObject | DeleteObject, at: Moment) -> Command:
    if isinstance(request, DeleteObject):
        subject = command_subject("delete", "noderesourcetopologies", request.name)
    else:
        subject = command_subject("apply", "noderesourcetopologies", request.name)
    return Command(subject, request, id=f"{SERVICE}.{subject}.{at.ms}")


def _events(name: str, published: NodeInventory | None, wanted: NodeInventory | None, at: Moment) -> list[Event]:
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
    if wanted is not None and wanted.problems and wanted.problems != known:
        problems = [f"{problem.field}: {problem.message}" for problem in wanted.problems[:5]]
        events.append(
            Event(
                event_subject("object", "refused", "devices", name),
                ObjectRefused(kind="Device", name=name, problems=wanted.problems),
                id=f"{SERVICE}.{name}.device.{at.ms}",
                level="warning",
                text="Device object has problems",
                fields={"node": name, "problems": problems},
            )
        )
    return events


def _refused(published: NodeTopology | None, wanted: NodeTopology | None, at: Moment) -> list[Event]:
    """That a report has problems that it did not have."""
    if wanted is None or not wanted.problems or (published is not None and published.problems == wanted.problems):
        return []
    return [
        Event(
            event_subject("object", "refused", "noderesourcetopologies", wanted.node),
            ObjectRefused(kind="NodeResourceTopology", name=wanted.node, problems=wanted.problems),
            id=f"{SERVICE}.{wanted.node}.topology.{at.ms}",
            level="warning",
            text="NodeResourceTopology object has problems",
            fields={
                "node": wanted.node,
                "problems": [f"{each.field}: {each.message}" for each in wanted.problems[:5]],
            },
        )
    ]
