"""From what the buckets show to what has to be written, patched and told about one node.

Sends nothing, waits for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from berth.contracts.command import PatchNode
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device
from berth.contracts.subjects import named_key
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.changes import changes
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.views import NODE, Shelf, StateView


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the knobs decide. `retry_s`: how long a node may take to show a patch before it is asked for again."""

    sync_nodes: bool = True
    publish_shared: bool = True
    threshold: float = 0.0
    retry_s: float = 30.0


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What one look at a node comes to; all of it is empty when everything is as it should be."""

    inventory: NodeInventory | None = None
    withdraw: bool = False
    patch: PatchNode | None = None
    events: list[NodeChanged | ObjectRefused] = field(default_factory=list)


class _Asked(NamedTuple):
    patch: PatchNode
    at: float


class Desk:
    """Decides about one node at a time. Times are monotonic seconds."""

    def __init__(self, rules: Rules, view: StateView, shelf: Shelf) -> None:
        self.view = view
        self.shelf = shelf
        self._rules = rules
        self._asked: dict[str, _Asked] = {}
        self._counts: dict[str, tuple[Device, NodeInventory]] = {}

    def names(self) -> set[str]:
        """Every node that may need something."""
        return self.view.devices.keys() | self.view.nodes.keys() | set(self.shelf.keys.values())

    def overdue(self, now: float) -> list[str]:
        """Nodes that were asked to be patched and still do not show it."""
        return [name for name, asked in self._asked.items() if now - asked.at >= self._rules.retry_s]

    def forget_asked(self) -> None:
        """Another replica was active meanwhile: what it asked for is unknown."""
        self._asked.clear()

    def decide(self, name: str, now: float) -> Outcome:
        """Bring INVENTORY and the node in line with the Device.

        The shelf is changed at once, as if the write had happened: should it be refused, the bucket shows the other
        value and the node is looked at again. A node without a Device loses its inventory only when the view proves
        that there is none.
        """
        device = self.view.devices.get(name)
        outcome = Outcome()
        if device is None and not self.view.proves_absence:
            return outcome
        published = self.shelf.inventories.get(name)
        wanted = self._counted(device)
        if wanted is None:
            self._counts.pop(name, None)
            outcome.withdraw = named_key(NODE, name) in self.shelf.keys
        elif published != wanted:
            outcome.inventory = wanted
        if outcome.withdraw or outcome.inventory is not None:
            outcome.events = _events(name, published, wanted)
            self.shelf.put(name, wanted)
        outcome.patch = self._patch(name, wanted, now)
        return outcome

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


def _events(
    name: str, published: NodeInventory | None, wanted: NodeInventory | None
) -> list[NodeChanged | ObjectRefused]:
    """What is new since the last published inventory. A first sight of healthy devices is told, too."""
    events: list[NodeChanged | ObjectRefused] = [
        NodeChanged(node=name, message=sentence) for sentence in changes(published, wanted)
    ]
    known = published.problems if published is not None else []
    if wanted is not None and wanted.problems and wanted.problems != known:
        events.append(ObjectRefused(kind="Device", name=name, problems=wanted.problems))
    return events
