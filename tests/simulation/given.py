"""What nodes know of the devices and CPUs that pods were given: what stood on the pod when it was bound, and no more.

A kubelet reads a pod once, starts it, and does not let go of a device because somebody writes something else on the
pod later. So what a node says must not be read from the object of today.
"""

from __future__ import annotations

from typing import Any

from berth.contracts import names
from berth.contracts.grants import ZONE
from berth.contracts.ledger import Grant
from berth.invariants import Counts, NodeHold
from berth.invariants.facts import ENDED, dumped, read_cores, read_devices
from berth.simcluster.store import Event
from berth.simcluster.store.collection import DELETED
from berth.simcluster.store.resource import PODS
from berth.testing.simulation.kube_server import SimKube


class Given:
    """The devices and CPUs of every pod that has a node, by uid, as they were given. Made before anything is bound."""

    def __init__(self, kube: SimKube, counts: Counts | None = None) -> None:
        self._kube = kube
        self._counts = counts or Counts()
        self._given: dict[str, list[Grant]] = {}
        self._rewritten: dict[str, str] = {}
        kube.store.listen(self._see)

    def holds(self) -> list[NodeHold]:
        """Every device and CPU that a pod which runs now was given, by the word of its node."""
        return [
            NodeHold(pod["spec"]["nodeName"], grant.kind, grant.id, uid, _percent(grant))
            for uid, pod in self._bound()
            if (pod.get("status") or {}).get("phase") == "Running"
            for grant in self._given[uid]
            if grant.kind != ZONE
        ]

    def rewritten(self) -> list[str]:
        """Pods that once showed other devices, or other amounts of them, than they were given."""
        return list(self._rewritten.values())

    def _bound(self) -> list[tuple[str, dict[str, Any]]]:
        pods = self._kube.store.state.of(PODS).items.values()
        return [
            (pod.uid, pod.data)
            for pod in pods
            if pod.uid in self._given and (pod.data.get("status") or {}).get("phase") not in ENDED
        ]

    def _see(self, event: Event) -> None:
        if event.resource is not PODS:
            return
        uid, meta, spec = event.obj.uid, event.obj.meta, event.obj.data["spec"]
        if event.kind == DELETED:
            self._given.pop(uid, None)
        elif spec.get("nodeName"):
            notes = meta.get("annotations") or {}
            shown = [*read_devices(notes), *read_cores(notes)]
            given = self._given.setdefault(uid, shown)
            if given:
                self._counts.judged("I1d")
            if shown != given and dumped(shown) != dumped(given):
                text = f"{event.obj.key} shows {dumped(shown)}, its node gave it {dumped(given)}"
                self._rewritten.setdefault(uid, text)


def _percent(grant: Grant) -> int:
    """How much of it; the whole of what is held whole or not at all."""
    parts = (names.GPU_CORE, names.GPU_MEMORY_RATIO, names.RDMA, names.FPGA)
    return max((grant.amounts[name] for name in parts if name in grant.amounts), default=100)
