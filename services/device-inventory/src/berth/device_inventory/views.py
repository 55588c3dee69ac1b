"""What the buckets show: Devices and Nodes of STATE, and our own INVENTORY. Sinks only record and mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.subjects import named_key, parts, synced_key

DEVICE: Final = "device"
NODE: Final = "node"
_MARKER: Final = synced_key("devices")


class StateView:
    """Devices and nodes by node name."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.devices: dict[str, state.Device] = {}
        self.nodes: dict[str, state.Node] = {}
        self.unreadable = 0
        self.is_at_end = False
        self._are_devices_complete = False
        self._mark = mark
        self._mark_all = mark_all

    @property
    def proves_absence(self) -> bool:
        """Whether a Device that is not here does not exist: all were listed, and all of that was read."""
        return self.is_at_end and self._are_devices_complete

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        if not self.is_at_end:
            return "reading the state of the cluster"
        return "complete" if self._are_devices_complete else "waiting for a complete list of devices"

    def reset(self) -> None:
        """The bucket begins anew."""
        self.devices.clear()
        self.nodes.clear()
        self.is_at_end = self._are_devices_complete = False

    def apply(self, entry: Entry) -> None:
        """One message of STATE."""
        kind = entry.key.partition(".")[0]
        if kind in (DEVICE, NODE):
            self._apply(kind, entry)
        elif entry.key == _MARKER:
            self._apply_marker(entry)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self.is_at_end:
            self.is_at_end = True
            self._mark_all()

    def _apply(self, kind: str, entry: Entry) -> None:
        """A message that cannot be read leaves what was known: no answer is better than withdrawing devices in use."""
        try:
            _, name = parts(entry.key)
            if entry.deleted:
                (self.devices if kind == DEVICE else self.nodes).pop(name, None)
            elif kind == DEVICE:
                self.devices[name] = _named(name, decode(entry.value, state.Device))
            else:
                self.nodes[name] = _named(name, decode(entry.value, state.Node))
        except (InvalidMessage, ValueError):
            self.unreadable += 1
            return
        self._mark(name)

    def _apply_marker(self, entry: Entry) -> None:
        try:
            complete = not entry.deleted and decode(entry.value, state.Synced).complete
        except InvalidMessage:
            self.unreadable += 1
            return
        became_complete = complete and not self._are_devices_complete
        self._are_devices_complete = complete
        if became_complete:
            self._mark_all()


Named = TypeVar("Named", state.Device, state.Node)


def _named(name: str, message: Named) -> Named:
    if message.name != name:
        raise InvalidMessage("name", "is not the name in the key")
    return message


class Shelf:
    """INVENTORY as published, by us or by the other replica, with counts of what is on it.

    `put` notes what we are about to write; when the bucket then shows something else, the node is marked.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self._mark = mark
        self.inventories: dict[str, NodeInventory] = {}
        self.keys: dict[str, str] = {}
        """Node name by key, for every key that is there, readable or not."""
        self.devices: Counter[tuple[str, bool]] = Counter()
        """How many devices there are by kind and health."""
        self.faulty = 0
        """How many nodes have problems in their Device."""

    def put(self, name: str, inventory: NodeInventory | None) -> None:
        """What the key of this node holds now, or will in a moment; None: nothing."""
        self._count(self.inventories.pop(name, None), -1)
        if inventory is None:
            self.keys.pop(named_key(NODE, name), None)
            return
        self.inventories[name] = inventory
        self.keys[named_key(NODE, name)] = name
        self._count(inventory, 1)

    def reset(self) -> None:
        """The bucket begins anew."""
        self.inventories.clear()
        self.keys.clear()
        self.devices = Counter(dict.fromkeys(self.devices, 0))  # shown as 0, not as what they were
        self.faulty = 0

    def apply(self, entry: Entry) -> None:
        """A published inventory; one that cannot be read counts as absent and is written again."""
        try:
            _, name = parts(entry.key)
        except ValueError:
            return
        try:
            shown = None if entry.deleted else decode(entry.value, NodeInventory)
        except InvalidMessage:
            self.put(name, None)
            self.keys[entry.key] = name
            self._mark(name)
            return
        if shown != self.inventories.get(name):
            self.put(name, shown)
            self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing to do at the end."""

    def _count(self, inventory: NodeInventory | None, sign: int) -> None:
        if inventory is None:
            return
        for slot in inventory.devices:
            self.devices[slot.kind, slot.healthy] += sign
        self.faulty += sign * bool(inventory.problems)
