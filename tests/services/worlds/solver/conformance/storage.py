"""Volumes of every kind for who waits, and for those that are there."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.solver.conformance.nodes import ROWS

from berth.contracts import subjects
from berth.contracts.kube import NodeSelector, NodeSelectorTerm, Requirement
from berth.contracts.state import CSINode, CSINodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, Synced
from berth.placement_solver.core.volumes import KINDS


def tell_storage(run: Any, limits: list[int | None]) -> None:
    """Claims of every kind: bound in zone `a`, bound for one pod alone, bound with a label of a zone, waiting for a
    volume volume that is there or one that is made, and one that has to be bound first."""

    def see(message: Any) -> None:
        prefix = str(message.__struct_config__.tag).partition(".")[0]
        if KINDS[prefix].is_namespaced:
            run.state(subjects.namespaced_key(prefix, message.namespace, message.name), message)
        else:
            run.state(subjects.named_key(prefix, message.name), message)

    def claim(name: str, storage_class: str, volume: str = "", mode: str = "ReadWriteOnce") -> None:
        see(
            PersistentVolumeClaim(
                namespace="default",
                name=name,
                uid=f"uid-{name}",
                version=1,
                storage_class=storage_class,
                volume=volume,
                is_bound=bool(volume),
                access_modes=[mode],
                requested=1,
            )
        )

    def volume(name: str, zone: str = "", owner: str = "", labels: dict[str, str] | None = None) -> None:
        terms = [NodeSelectorTerm(match_expressions=[Requirement(key="zone", operator="In", values=[zone])])]
        see(
            PersistentVolume(
                name=name,
                uid=f"uid-{name}",
                version=1,
                labels=labels or {},
                capacity=1,
                access_modes=["ReadWriteOnce"],
                storage_class="local",
                claim=f"default/{owner}" if owner else "",
                claim_uid=f"uid-{owner}" if owner else "",
                phase="Bound" if owner else "Available",
                node_affinity=NodeSelector(node_selector_terms=terms) if zone else None,
                driver="csi",
                handle=name,
            )
        )

    for name, provisioner, mode in (
        ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        ("made", "csi", "WaitForFirstConsumer"),
        ("at-once", "csi", "Immediate"),
    ):
        see(StorageClass(name=name, version=1, provisioner=provisioner, binding_mode=mode))
    volume("v-here", "a", "here")
    volume("v-one-pod", "", "one-pod")
    volume("v-zoned", "", "zoned", {"topology.kubernetes.io/zone": "a"})
    volume("v-free", "a")
    claim("here", "local", "v-here")
    claim("one-pod", "local", "v-one-pod", "ReadWriteOncePod")
    claim("zoned", "local", "v-zoned")
    claim("kept", "local")
    claim("fresh", "made")
    claim("late", "at-once")
    for name, limit in zip(ROWS, limits, strict=True):
        see(CSINode(name=name, version=1, drivers=[CSINodeDriver(name="csi", count=limit)]))
    for kind in KINDS.values():
        run.state(subjects.synced_key(kind.plural), Synced(kind=kind.plural, version=1, complete=True))
    run.complete()
