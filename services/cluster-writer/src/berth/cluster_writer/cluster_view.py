"""What cluster-writer sees: STATE's pods, Reservations, nodes, Devices and topologies, and LEDGER, in a book that
remembers.

It also notices pods that turn out bound under a plan of ours, which is when `placement.bound` is published.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.cluster_writer.core.placements import Placements
from berth.cluster_writer.core.victims import RunningGangs
from berth.cluster_writer.core.volume_holders import VolumeHolders
from berth.contracts import subjects
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.ledger import Decision, Grant
from berth.contracts.state import (
    Device,
    Node,
    NodeResourceTopology,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    Reservation,
    Synced,
)
from berth.contracts.topology import NodeTopology
from berth.rules.cpus.node_topology import topology_of
from berth.rules.devices.kubelet_cards import picked_grants, read_kubelet_cards
from berth.rules.storage import StorageObjects
from berth.transaction.book import Book
from berth.transaction.claims import Name

STORAGE_KINDS = ("persistentvolumeclaim", "persistentvolume")
STORAGE_MARKERS = ("persistentvolumeclaims", "persistentvolumes")
StorageKey = tuple[str, str]
"""Namespace and name of a claim; a volume has the empty namespace."""


class ClusterView:
    """The writer's views. `on_bound(object, decision)` is called once per object that appears bound under our plan,
    `on_end(pod, reason)` once per pod that was and has ended or is gone."""

    def __init__(
        self,
        on_bound: Callable[[Pod | Reservation, Decision | None, bool], None],
        on_end: Callable[[Pod, str], None] = lambda pod, reason: None,
    ) -> None:
        self.placements = Placements(on_end)
        self.book = Book(remember=True)
        self.nodes: dict[str, Node] = {}
        self.nodes_known = False
        self.devices: dict[str, Device] = {}
        self.devices_known = False
        self.topologies_known = False
        self._topologies: dict[str, NodeResourceTopology | NodeTopology] = {}
        """By node: the object, and once somebody has asked what it comes to."""
        self.pod_groups: dict[Name, PodGroup] = {}
        self.pod_groups_known = False
        self.running_gangs = RunningGangs()
        self.begun: set[tuple[str, str]] = set()
        """Plan and gang of every strict gang of which a member was seen bound, even if that member is gone by now."""
        self.storage = StorageObjects()
        self.storage_known = False
        """All claims and volumes were read."""
        self.volume_holders = VolumeHolders()
        self.on_storage: Callable[[StorageKey], None] = _ignore
        """Called with the claim or the volume that has changed."""
        self._storage_complete = dict.fromkeys(STORAGE_MARKERS, False)
        self._on_bound = on_bound
        self._live = False

    def reset_state(self) -> None:
        """STATE starts over."""
        self._live = self.nodes_known = self.devices_known = self.pod_groups_known = False
        self.topologies_known = False
        self.nodes.clear()
        self._topologies.clear()
        for name in list(self.devices):
            self._read_device(name, None)
        self.pod_groups.clear()
        self.storage.clear()
        self.volume_holders.clear()
        self.storage_known = False
        self._storage_complete = dict.fromkeys(STORAGE_MARKERS, False)
        self.running_gangs.clear()
        self.book.reset_state()
        self.placements.reset()

    @property
    def is_read(self) -> bool:
        """Nodes, Devices and PodGroups were read to their ends: what is not shown is not there."""
        return self._live and self.nodes_known and self.devices_known and self.pod_groups_known

    def end_of_state(self) -> None:
        """The end of STATE was reached; from the first time on, changes are news."""
        for tracker in self.book.complete.values():
            tracker.end()
        self.book.settle_waiting()
        self.placements.end(self.book.pods, self.book.complete["pods"].version)
        self._live = True

    def read_state(self, key: str, value: bytes, *, deleted: bool, gap: bool) -> Name | None:
        """Take in one message of STATE; the name of the pod or Reservation that it is about. Raises InvalidMessage."""
        if gap:
            for tracker in self.book.complete.values():
                tracker.gap()
        kind, _, rest = key.partition(".")
        if kind == "pod":
            return self._read_pod(rest, value, deleted)
        if kind == "reservation":
            return self._read_reservation(subjects.unescape(rest), value, deleted)
        if kind == "node":
            name = subjects.unescape(rest)
            if deleted:
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = decode(value, Node)
        elif kind == "device":
            name = subjects.unescape(rest)
            self._read_device(name, None if deleted else decode(value, Device))
        elif kind == "noderesourcetopology":
            name = subjects.unescape(rest)
            if deleted:
                self._topologies.pop(name, None)
            else:
                self._topologies[name] = decode(value, NodeResourceTopology)
        elif kind == "podgroup":
            namespace, group_name = subjects.parts(rest)
            if deleted:
                self.pod_groups.pop((namespace, group_name), None)
            else:
                self.pod_groups[namespace, group_name] = decode(value, PodGroup)
        elif kind in STORAGE_KINDS:
            self._read_storage(kind, rest, value, deleted)
        elif kind == "synced" and not deleted:
            marker = decode(value, Synced)
            if marker.kind == "nodes":
                self.nodes_known = marker.complete
            elif marker.kind == "devices":
                self.devices_known = marker.complete
            elif marker.kind == "noderesourcetopologies":
                self.topologies_known = marker.complete
            elif marker.kind == "podgroups":
                self.pod_groups_known = marker.complete
            elif marker.kind in self._storage_complete:
                self._storage_complete[marker.kind] = marker.complete
                self.storage_known = all(self._storage_complete.values())
            if marker.kind in self.book.complete:
                self.book.complete[marker.kind].marked(marker.version, marker.complete)
                self.book.settle_waiting()
        return None

    def topology_of(self, node: str) -> NodeTopology | None:
        """The CPUs and NUMA nodes of a node by its object in view; None without one."""
        found = self._topologies.get(node)
        if isinstance(found, NodeResourceTopology):
            found = self._topologies[node] = topology_of(found)
        return found

    def read_ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> str:
        """Take in one message of LEDGER; the plan whose entry it is, empty when it is none. Raises InvalidMessage."""
        for name in self.book.read_ledger(key, value, deleted, sequence):
            held = self.book.ledger.decisions.get(name)
            self.volume_holders.see_decision(name, None if held is None else held.decision)
        _, _, rest = key.partition(".")
        family, _, plan = rest.partition(".")
        return subjects.unescape(plan) if family == "plan" and not deleted else ""

    def _read_pod(self, rest: str, value: bytes, deleted: bool) -> Name:
        namespace, pod_name = subjects.parts(rest)
        name = (namespace, pod_name)
        tracker = self.book.complete["pods"]
        if deleted:
            version = _version(value)
            tracker.seen(version)
            self.book.see_pod(name, None)
            self.volume_holders.see_pod(name, None)
            self.running_gangs.see(name, None)
            self.placements.gone(name, version)
            return name
        pod = decode(value, Pod)
        before = self.book.pods.get(name)
        tracker.seen(pod.version)
        self.book.see_pod(name, pod)
        self.volume_holders.see_pod(name, pod)
        self.running_gangs.see(name, pod)
        self._tell(before, pod, name)
        self.placements.seen(name, pod)
        return name

    def _read_reservation(self, reservation_name: str, value: bytes, deleted: bool) -> Name:
        name = ("", reservation_name)
        tracker = self.book.complete["reservations"]
        if deleted:
            tracker.seen(_version(value))
            self.book.see_reservation(name, None)
            self.running_gangs.see(name, None)
            return name
        reservation = decode(value, Reservation)
        before = self.book.reservations.get(name)
        tracker.seen(reservation.version)
        self.book.see_reservation(name, reservation)
        self.running_gangs.see(name, reservation)
        self._tell(before, reservation, name)
        return name

    def _read_device(self, name: str, device: Device | None) -> None:
        """A Device, or that there is none; with it comes which cards kubelet has picked, as far as that can be read."""
        picked: dict[str, tuple[Grant, ...]] = {}
        if device is None:
            self.devices.pop(name, None)
        else:
            self.devices[name] = device
            cards = read_kubelet_cards(device.annotations)
            picked = {} if isinstance(cards, Problem) else picked_grants(cards, device.devices)
        self.book.see_picked(name, picked)

    def _read_storage(self, kind: str, rest: str, value: bytes, deleted: bool) -> None:
        if kind == "persistentvolumeclaim":
            namespace, claim_name = subjects.parts(rest)
            claim = None if deleted else decode(value, PersistentVolumeClaim)
            self.storage.see_claim((namespace, claim_name), claim)
            self.on_storage((namespace, claim_name))
        else:
            name = subjects.unescape(rest)
            self.storage.see_volume(name, None if deleted else decode(value, PersistentVolume))
            self.on_storage(("", name))

    def _tell(self, before: Pod | Reservation | None, after: Pod | Reservation, name: Name) -> None:
        if not after.node or not after.plan:
            return
        if before is not None and before.uid == after.uid and before.node:
            return
        held = self.book.ledger.decisions.get(name)
        decision = held.decision if held and held.decision.uid == after.uid else None
        if decision is not None and decision.gang is not None and decision.plan == after.plan:
            self.begun.add((decision.plan, decision.gang.name))
        self._on_bound(after, decision, self._live)


def _version(value: bytes) -> int:
    try:
        return int(value) if value else 0
    except ValueError:
        return 0


def _ignore(_key: StorageKey) -> None:
    pass
