"""A reconciler of device-inventory fed by hand, with what nodes and Devices look like there."""

from __future__ import annotations

from typing import Any, NamedTuple

from berth.bus.port import Entry
from berth.contracts import names
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.command import ApplyObject, DeleteObject
from berth.contracts.node_report import NodeReport
from berth.contracts.node_runtime import NodeRuntime
from berth.contracts.state import Device, DeviceInfo, Node, NodeResourceTopology, Synced
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.reconciler import Reconciler, Rules
from berth.device_inventory.views import (
    AgentView,
    InventoryView,
    NetworkView,
    OfferView,
    PodView,
    RuntimeView,
    StateView,
)
from berth.runtime import Moment

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


class Decision(NamedTuple):
    """What an outcome comes to for one node."""

    inventory: Message | None = None
    withdraw: bool = False
    patch: Any = None
    events: list[Message] = []


NOTHING = Decision()


def machine(name: str = "n", gpus: int = 2, *, version: int = 1, broken: int = 0) -> Device:
    entries = [DeviceInfo(kind="gpu", minor=m, healthy=m >= broken, amounts=WHOLE, position=m) for m in range(gpus)]
    return Device(name=name, uid="d", version=version, devices=entries)


def node(name: str = "n", gpus: int = 0, **more: Any) -> Node:
    sums = dict.fromkeys((names.GPU_CORE, names.GPU_MEMORY_RATIO, names.KOORD_GPU, names.GPU_SHARED), 100 * gpus)
    sums[names.GPU_MEMORY] = 80 * GI * gpus
    shown = sums if gpus else {}
    return Node(**({"name": name, "uid": "u", "version": 1, "allocatable": shown, "capacity": shown} | more))


class Bench:
    """A reconciler with its views, fed by hand."""

    def __init__(self, **rules: Any) -> None:
        self.marked: set[str] = set()
        self.messages = 0
        self.view = StateView(self.marked.add, self.mark_all)
        self.agents, self.pods = AgentView(self.marked.add), PodView(self.marked.add, self.mark_all)
        self.published = InventoryView(self.marked.add)
        self.runtimes = RuntimeView(self.marked.add)
        self.network, self.offers = NetworkView(self.marked.add), OfferView(self.marked.add)
        views = (self.view, self.published, self.agents, self.pods, self.runtimes, self.network, self.offers)
        self.reconciler = Reconciler(Rules(**rules), *views, self.mark_all)

    def mark_all(self) -> None:
        self.marked |= set(self.reconciler.names())

    def decide(self, name: str, now: float) -> Decision:
        """Reconciled, and written as the harness does."""
        outcome = self.reconciler.reconcile(name, Moment(now, now))
        for write in outcome.writes:
            self.published.wrote(write.key, write.message)
        (written,) = [write.message for write in outcome.writes] or [None]
        (patch,) = [command.message for command in outcome.commands] or [None]
        events = [event.message for write in outcome.writes for event in write.events]
        return Decision(written, bool(outcome.writes) and written is None, patch, events)

    def asks(self, now: float, name: str = "n") -> list[Any]:
        """What is asked for about the Device object."""
        outcome = self.reconciler.reconcile(name, Moment(now, now))
        messages = [command.message for command in outcome.commands]
        return [message for message in messages if isinstance(message, ApplyObject | DeleteObject)]

    def overdue(self, now: float) -> list[str]:
        return self.reconciler.due(Moment(now, now))

    def show(self, message: Device | NodeResourceTopology | Node) -> None:
        kind = str(message.__struct_config__.tag).partition(".")[0]
        self.entry(named_key(kind, message.name), encode(message))

    def drop(self, kind: str, name: str) -> None:
        self.entry(named_key(kind, name), b"")

    def complete(self, *, listed: bool = True, version: int = 9) -> None:
        """The end of the bucket, with lists of devices and nodes that are complete, or not."""
        for kind in ("devices", "nodes"):
            self.entry(synced_key(kind), encode(Synced(kind=kind, version=version, complete=listed)))
        self.view.end(1)

    def report(self, message: NodeReport | None, name: str = "n") -> None:
        self.entry(named_key("report", name), b"" if message is None else encode(message), self.agents)

    def says(self, message: NodeRuntime | None, name: str = "n") -> None:
        """What the agent says of the container runtime."""
        self.messages += 1
        value = b"" if message is None else encode(message)
        self.entry(named_key("runtime", name), value, self.runtimes, sequence=self.messages)

    def entry(self, key: str, value: bytes, sink: Any = None, sequence: int = 1) -> None:
        (sink or self.view).apply(Entry(key, value, value == b"", sequence, 0, False, None))
