"""Messages of every bucket, written in order into whatever reads them: a view driven without a bus.

A `Feed` plays the parts of the writers: it gives resource versions and ledger sequences, and judges batches of the
ledger by their expected sequences, all of a batch or nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from msgspec import structs

from berth.contracts import names, subjects
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.ledger import Epoch
from berth.contracts.network import LayerLabels, NetworkLayers, NodeDomains
from berth.contracts.quota import QuotaGroup
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import (
    Device,
    Namespace,
    Node,
    NodeResourceTopology,
    Pod,
    PodGroup,
    Reservation,
    Synced,
)
from berth.contracts.topology import NodeTopology
from berth.testing.builders import GI, PodBuilder

FOLLOWED: Final = (
    *("pods", "reservations", "elasticquotas"),
    *("nodes", "devices", "poddisruptionbudgets", "podgroups"),
)
"""The kinds that `Feed.complete` marks."""


class LedgerReader(Protocol):
    """A follower of LEDGER."""

    def read_ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> object:
        """The next message."""


class Reader(LedgerReader, Protocol):
    """A view that follows the buckets of a solver."""

    def read_state(self, key: str, value: bytes, *, deleted: bool, gap: bool, trace: str | None) -> None:
        """The next message of STATE."""

    def read_inventory(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of INVENTORY."""

    def read_quota(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of QUOTA."""

    def read_reserved(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message of RESERVATION."""

    def end_of_state(self) -> None:
        """The end of STATE."""


class Batched(Protocol):
    """One write of a batch; a value of None deletes the key."""

    @property
    def key(self) -> str:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """What is written."""

    @property
    def expected(self) -> int:
        """The last sequence of the key, as the writer believes."""


class LedgerLog:
    """The ledger's stream, as the server keeps it."""

    def __init__(self) -> None:
        self.sequence = 0
        self.last: dict[str, int] = {}
        self.messages: list[tuple[str, bytes, bool, int]] = []

    def commit(self, writes: Sequence[Batched]) -> bool:
        """Append a whole batch, or nothing when a write expects another sequence than its key has."""
        keys = [write.key for write in writes]
        if len(set(keys)) != len(keys) or any(self.last.get(write.key, 0) != write.expected for write in writes):
            return False
        for write in writes:
            self.append(write.key, write.value)
        return True

    def append(self, key: str, value: bytes | None) -> None:
        """Append one message unconditionally."""
        self.sequence += 1
        self.last[key] = self.sequence
        self.messages.append((key, value or b"", value is None, self.sequence))


class Feed:
    """Writes messages into a reader and remembers how far it is. The view starts out complete and in epoch 1."""

    def __init__(self, reader: Reader, *, complete: bool = True) -> None:
        self.reader = reader
        self.version = 0
        self.ledger = LedgerLog()
        self._delivered = 0
        if complete:
            self.complete()
            self.epoch(1)

    def state(self, key: str, message: Message) -> None:
        """One message of STATE."""
        self.reader.read_state(key, encode(message), deleted=False, gap=False, trace=None)

    def complete(self) -> None:
        """The markers that say that everything written so far is all there is."""
        self.version += 1
        for kind in FOLLOWED:
            self.state(subjects.synced_key(kind), Synced(kind=kind, version=self.version, complete=True))
        self.reader.end_of_state()

    def node(self, name: str, *, cpu: int = 64_000, memory: int = 256 * GI, pods: int = 110, **fields: Any) -> Node:
        """A node that is there."""
        self.version += 1
        allocatable = {names.CPU: cpu, names.MEMORY: memory, names.PODS: pods, **fields.pop("extended", {})}
        node = Node(name=name, uid=f"uid-{name}", version=self.version, allocatable=allocatable, ready=True, **fields)
        self.state(subjects.named_key("node", name), node)
        return node

    def namespace(self, name: str, **labels: str) -> None:
        """A namespace with its labels."""
        self.version += 1
        self.state(subjects.named_key("namespace", name), Namespace(name=name, version=self.version, labels=labels))

    def devices(self, node: str, slots: list[DeviceSlot], **fields: Any) -> None:
        """The devices of a node, reported and counted; `fields` are others of its inventory."""
        self.version += 1
        self.state(subjects.named_key("device", node), Device(name=node, uid=f"device-{node}", version=self.version))
        message = NodeInventory(node=node, version=self.version, devices=slots, **fields)
        self.reader.read_inventory(subjects.named_key("node", node), encode(message), False)

    def topology(self, node: str, topology: NodeTopology) -> None:
        """Where the CPUs of a node lie, reported and read."""
        self.version += 1
        self.state(
            subjects.named_key("noderesourcetopology", node), NodeResourceTopology(name=node, version=self.version)
        )
        message = structs.replace(topology, node=node, version=self.version)
        self.reader.read_inventory(subjects.named_key("topology", node), encode(message), False)

    def network(self, *layers: str, digest: str = "d") -> None:
        """The layers of the network above the nodes, from the top down; each is a label of the same name."""
        listed = [LayerLabels(name=name, label_keys=[name]) for name in layers]
        message = NetworkLayers(name="default", layers=listed, digest=digest)
        self.reader.read_inventory(subjects.named_key("network", "default"), encode(message), False)

    def lies(self, node: str, *path: str, digest: str = "d") -> None:
        """Where a node lies in the network."""
        message = NodeDomains(node=node, digest=digest, path=list(path))
        self.reader.read_inventory(subjects.named_key("domains", node), encode(message), False)

    def pod(self, builder: PodBuilder) -> Pod:
        """A pod, as it is now."""
        self.version += 1
        pod = builder.build(self.version)
        self.state(subjects.pod_key(pod.namespace, pod.name), pod)
        return pod

    def pods(self, builders: Iterable[PodBuilder]) -> list[Pod]:
        """Several pods."""
        return [self.pod(builder) for builder in builders]

    def delete(self, key: str) -> None:
        """A tombstone of STATE."""
        self.version += 1
        self.reader.read_state(key, str(self.version).encode(), deleted=True, gap=False, trace=None)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """A pod is gone."""
        self.delete(subjects.pod_key(namespace, name))

    def pod_group(self, name: str, minimum: int, namespace: str = "default", **fields: Any) -> PodGroup:
        """A PodGroup."""
        self.version += 1
        group = PodGroup(
            namespace=namespace, name=name, uid=f"uid-{name}", version=self.version, min_member=minimum, **fields
        )
        self.state(subjects.namespaced_key("podgroup", namespace, name), group)
        return group

    def quota(self, name: str, *, tree: str = "", **fields: Any) -> QuotaGroup:
        """A quota group; `max`, `min` and `runtime` as amounts. Without a runtime, all of max may be used."""
        self.version += 1
        fields.setdefault("limits", sorted(fields.get("max", {})))
        fields.setdefault("runtime", fields.get("max", {}))
        group = QuotaGroup(tree=tree, name=name, revision=self.version, **fields)
        self.reader.read_quota(subjects.quota_key(tree, name), encode(group), False)
        return group

    def reservation(self, reservation: Reservation, capacity: ReservedCapacity | None = None) -> None:
        """A Reservation, and the capacity that it means when it is there."""
        self.version += 1
        message = Reservation(
            **{f: getattr(reservation, f) for f in reservation.__struct_fields__ if f != "version"},
            version=self.version,
        )
        self.state(subjects.named_key("reservation", reservation.name), message)
        if capacity is not None:
            self.reader.read_reserved(subjects.named_key("reservation", capacity.name), encode(capacity), False)

    def epoch(self, epoch: int) -> None:
        """Raise the epoch."""
        self.ledger.append(subjects.EPOCH_KEY, encode(Epoch(epoch=epoch, pods_version=self.version)))
        self.deliver()

    def commit(self, writes: Sequence[Batched]) -> bool:
        """Offer a batch to the ledger; when it is accepted the reader reads it."""
        accepted = self.ledger.commit(writes)
        self.deliver()
        return accepted

    def deliver(self) -> None:
        """Let the reader read the ledger to its end."""
        for message in self.ledger.messages[self._delivered :]:
            self.reader.read_ledger(*message)
        self._delivered = len(self.ledger.messages)
