"""From what the buckets show to what has to be written, patched and announced about one node. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from berth.contracts.command import PatchNode
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device, NodeResourceTopology
from berth.contracts.subjects import command_subject, event_subject, named_key
from berth.contracts.topology import NodeTopology
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.changes import changes
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.core.topology import topology_of
from berth.device_inventory.settings import SERVICE
from berth.device_inventory.views import NODE, TOPOLOGY, InventoryView, StateView
from berth.runtime import Command, Event, Moment, Outcome, Write
from berth.runtime.outcome import NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the knobs decide. `retry_s`: how long a node may take to show a patch before it is asked for again."""

    sync_nodes: bool = True
    publish_shared: bool = True
    threshold: float = 0.0
    retry_s: float = 30.0


class _Asked(NamedTuple):
    patch: PatchNode
    at: float


class Reconciler:
    """Decides about one node at a time. Times are monotonic seconds."""

    def __init__(self, rules: Rules, view: StateView, published: InventoryView) -> None:
        self.view = view
        self.published = published
        self._rules = rules
        self._asked: dict[str, _Asked] = {}
        self._counts: dict[str, tuple[Device, NodeInventory]] = {}
        self._topologies: dict[str, tuple[NodeResourceTopology, NodeTopology]] = {}

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
            "unreadable messages": self.view.unreadable,
            "view": self.view.missing,
            **{
                f"{kind} {'healthy' if healthy else 'unhealthy'}": count
                for (kind, healthy), count in sorted(self.published.devices.items())
            },
        }

    def names(self) -> list[str]:
        """Every node that may need something."""
        shown = self.view.devices.keys() | self.view.reports.keys() | self.view.nodes.keys()
        return sorted(shown | {*self.published.keys.values(), *self.published.topologies.keys.values()})

    def due(self, at: Moment) -> list[str]:
        """Nodes that were asked to be patched and still do not show it."""
        return [name for name, asked in self._asked.items() if at.monotonic - asked.at >= self._rules.retry_s]

    def begin(self) -> None:
        """Another replica was active meanwhile: what it asked for is unknown."""
        self._asked.clear()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring INVENTORY in line with Device and NodeResourceTopology, and the node with the Device.

        A node without one of them loses what was counted of it only when the view proves that there is none.
        """
        outcome = self._of_device(name, at)
        writes = self._of_topology(name, at)
        return Outcome([*outcome.writes, *writes], outcome.commands) if writes else outcome

    def _of_topology(self, name: str, at: Moment) -> list[Write]:
        report, topologies = self.view.reports.get(name), self.published.topologies
        if report is None and not self.view.proves_absence_of_report:
            return []
        key, published = named_key(TOPOLOGY, name), topologies.messages.get(name)
        wanted = self._read(report)
        if wanted is None:
            self._topologies.pop(name, None)
        if (key not in topologies.keys) if wanted is None else (published == wanted):
            return []
        return [Write(key, wanted, _refused(published, wanted, at))]

    def _read(self, report: NodeResourceTopology | None) -> NodeTopology | None:
        """The topology of a report, kept as long as the report stays what it is."""
        if report is None:
            return None
        known = self._topologies.get(report.name)
        if known is None or known[0] is not report:
            known = self._topologies[report.name] = (report, topology_of(report))
        return known[1]

    def _of_device(self, name: str, at: Moment) -> Outcome:
        device = self.view.devices.get(name)
        if device is None and not self.view.proves_absence:
            return NOTHING
        key, published = named_key(NODE, name), self.published.messages.get(name)
        wanted = self._counted(device)
        writes = []
        if wanted is None:
            self._counts.pop(name, None)
        if (key in self.published.keys) if wanted is None else (published != wanted):
            writes = [Write(key, wanted, _events(name, published, wanted, at))]
        patch = self._patch(name, wanted, at.monotonic)
        return Outcome(writes, [] if patch is None else [_command(patch, at)])

    def _counted(self, device: Device | None) -> NodeInventory | None:
        """The inventory of a Device. Nodes change far more often than their devices, so the last one is kept."""
        if device is None:
            return None
        known = self._counts.get(device.name)
        if known is None or known[0] is not device:
            known = self._counts[device.name] = (device, inventory_of(device))
        return known[1]

    def _patch(self, name: str, inventory: NodeInventory | None, now: float) -> PatchNode | None:
        node = self.view.nodes.get(name)
        patch = None
        if node is not None and not node.deleting and self._rules.sync_nodes:
            patch = node_patch(
                node,
                self.view.devices.get(name),
                inventory,
                publish_shared=self._rules.publish_shared,
                threshold=self._rules.threshold,
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
