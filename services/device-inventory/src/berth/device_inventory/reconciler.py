"""From what the buckets show to what has to be written, patched and announced about one node. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from berth.contracts.command import PatchNode
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device
from berth.contracts.subjects import command_subject, event_subject, named_key
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.changes import changes
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.settings import SERVICE
from berth.device_inventory.views import NODE, InventoryView, StateView
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
            "unreadable messages": self.view.unreadable,
            "view": self.view.missing,
            **{
                f"{kind} {'healthy' if healthy else 'unhealthy'}": count
                for (kind, healthy), count in sorted(self.published.devices.items())
            },
        }

    def names(self) -> list[str]:
        """Every node that may need something."""
        return sorted(self.view.devices.keys() | self.view.nodes.keys() | set(self.published.keys.values()))

    def due(self, at: Moment) -> list[str]:
        """Nodes that were asked to be patched and still do not show it."""
        return [name for name, asked in self._asked.items() if at.monotonic - asked.at >= self._rules.retry_s]

    def begin(self) -> None:
        """Another replica was active meanwhile: what it asked for is unknown."""
        self._asked.clear()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring INVENTORY and the node in line with the Device.

        A node without a Device loses its inventory only when the view proves that there is none.
        """
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
