"""From what the buckets show to what has to be written, patched and announced about one node. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from berth.contracts import names
from berth.contracts.command import ApplyObject, DeleteObject, PatchNode
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.kube import OwnerReference
from berth.contracts.node_report import NodeReport
from berth.contracts.state import Device, Node
from berth.contracts.subjects import command_subject, event_subject, named_key
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.asking import Asked, asked
from berth.device_inventory.core.changes import changes
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.core.device_object import API, DeviceObject, device_object, is_ours, shows
from berth.device_inventory.settings import SERVICE
from berth.device_inventory.views import NODE, AgentView, InventoryView, StateView
from berth.rules.numbers import parse_integer
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


class _Patched(NamedTuple):
    patch: PatchNode
    at: float


class Reconciler:
    """Decides about one node at a time. Times are monotonic seconds."""

    def __init__(self, rules: Rules, view: StateView, agents: AgentView, published: InventoryView) -> None:
        self.view = view
        self.agents = agents
        self.published = published
        self._rules = rules
        self._patched: dict[str, _Patched] = {}
        self._asked: dict[str, Asked] = {}
        self._counts: dict[str, tuple[Device, str, NodeInventory]] = {}
        self._objects: dict[str, tuple[NodeReport, DeviceObject | None]] = {}

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
            "nodes that report": len(self.agents.reports),
            "objects of others": sum(
                name in self.view.devices and not is_ours(self.view.devices[name]) for name in self.agents.reports
            ),
            "unreadable messages": self.view.unreadable + self.agents.unreadable,
            "view": self.view.missing,
            **{
                f"{kind} {'healthy' if healthy else 'unhealthy'}": count
                for (kind, healthy), count in sorted(self.published.devices.items())
            },
        }

    def names(self) -> list[str]:
        """Every node that may need something."""
        shown = self.view.devices.keys() | self.view.nodes.keys() | set(self.published.keys.values())
        return sorted(shown | self.agents.reports.keys() | self.agents.withdrawn)

    def due(self, at: Moment) -> list[str]:
        """Nodes that were asked to be patched, or whose object was asked for, and that still do not show it."""
        late = {name for name, each in self._patched.items() if at.monotonic - each.at >= self._rules.retry_s}
        return sorted(late | {name for name, each in self._asked.items() if at.monotonic >= each.again_at_s})

    def begin(self) -> None:
        """Another replica was active meanwhile: what it asked for is unknown."""
        self._patched.clear()
        self._asked.clear()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring INVENTORY and the node in line with the Device, and the Device with what the node's agent reports.

        A node without a Device loses its inventory only when the view proves that there is none.
        """
        device = self.view.devices.get(name)
        if device is None and not self.view.proves_absence:
            return NOTHING
        key, published = named_key(NODE, name), self.published.messages.get(name)
        wanted = self._counted(device, self.view.nodes.get(name))
        writes = []
        if wanted is None:
            self._counts.pop(name, None)
        if (key in self.published.keys) if wanted is None else (published != wanted):
            writes = [Write(key, wanted, _events(name, published, wanted, at))]
        commands = self._object(name, device, at)
        patch = self._patch(name, wanted, at.monotonic)
        if patch is not None:
            commands.append(_command(patch, at))
        return Outcome(writes, commands)

    def _counted(self, device: Device | None, node: Node | None) -> NodeInventory | None:
        """The inventory of a Device. Nodes change far more often than their devices, so the last one is kept."""
        if device is None:
            return None
        annotations = node.annotations if node is not None else {}
        cordon = annotations.get(names.ANNOTATION_DEVICE_CORDON, "")
        known = self._counts.get(device.name)
        if known is None or known[0] is not device or known[1] != cordon:
            known = self._counts[device.name] = (device, cordon, inventory_of(device, annotations))
        return known[2]

    def _object(self, name: str, device: Device | None, at: Moment) -> list[Command]:
        """What to ask for so that the Device says what the node's agent reports.

        An object of another agent is never asked to be changed. One of ours goes with its node, and when the agent says
        that there are no devices, or that it reports no longer; that nothing is reported now says nothing.
        """
        if not self._rules.sync_objects or not self.view.takes_objects:
            return []
        node, report = self.view.nodes.get(name), self.agents.reports.get(name)
        is_missing = node is None and self.view.proves_nodes_absence
        is_over = is_missing or name in self.agents.withdrawn
        wanted = self._rendered(name, report)
        command: Command | None = None
        if device is not None and (device.deleting or not is_ours(device)):
            about: object = None
        elif device is not None and (is_over or (report is not None and wanted is None)):
            about, command = ("delete", device.uid), _deletion(device, at)
        elif (
            node is not None
            and not node.deleting
            and report is not None
            and wanted is not None
            and (device is None or not shows(device, report, wanted))
        ):
            about, command = ("apply", report.version, node.uid), _application(node, device, wanted, at)
        else:
            about = None
        if command is None:
            self._asked.pop(name, None)
            return []
        request = asked(self._asked.get(name), about, now_s=at.monotonic, pause_s=self._rules.retry_s)
        if request is None:
            return []
        self._asked[name] = request
        return [command]

    def _rendered(self, name: str, report: NodeReport | None) -> DeviceObject | None:
        """What the object is to say. Reports change far less often than nodes do, so the last one is kept."""
        if report is None:
            self._objects.pop(name, None)
            return None
        known = self._objects.get(name)
        if known is None or known[0] is not report:
            known = self._objects[name] = (report, device_object(report))
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
            self._patched.pop(name, None)
            return None
        before = self._patched.get(name)
        if before is not None and before.patch == patch and now - before.at < self._rules.retry_s:
            return None
        self._patched[name] = _Patched(patch, now)
        return patch


def _command(patch: PatchNode, at: Moment) -> Command:
    return Command(command_subject("patch", "nodes", patch.name), patch, id=f"{SERVICE}.{patch.uid}.{at.ms}")


def _application(node: Node, device: Device | None, wanted: DeviceObject, at: Moment) -> Command:
    """Its number is above that of the object, so that no clock that went back keeps it from being carried out."""
    text = device.annotations.get(names.ANNOTATION_REVISION, "") if device is not None else ""
    message = ApplyObject(
        api=API,
        name=node.name,
        spec=wanted.spec,
        owner=OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid, controller=True),
        revision=max(at.ms, (parse_integer(text) or 0) + 1),
        labels=wanted.labels,
        annotations=wanted.annotations,
    )
    return Command(command_subject("apply", "devices", node.name), message, id=f"{SERVICE}.{node.uid}.apply.{at.ms}")


def _deletion(device: Device, at: Moment) -> Command:
    message = DeleteObject(api=API, name=device.name, uid=device.uid)
    subject = command_subject("delete", "devices", device.name)
    return Command(subject, message, id=f"{SERVICE}.{device.uid}.delete.{at.ms}")


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
