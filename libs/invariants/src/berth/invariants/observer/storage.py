"""Claims and volumes as the API server has them, with the moment since which each of them has been so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts import kube, names, state
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.pods import version_of
from berth.rules.storage import CLAIM_SOURCE, EPHEMERAL_SOURCE, ClaimName, Mounter, StorageObjects

Json = Mapping[str, Any]
NO_LABELS: Final[Mapping[str, str]] = {}


class Storage:
    """The objects by name. Inline disks, in-tree sources and attachments are left out."""

    def __init__(self) -> None:
        self.objects = StorageObjects()
        self.labels: dict[str, Mapping[str, str]] = {}
        """Of nodes."""
        self._since_s: dict[tuple[str, ...], float] = {}

    def since(self, *key: str) -> float:
        """Since when an object has been as it is, or has not been there: its kind, and its name in parts."""
        return self._since_s.get(key, -NEVER)

    def see_node(self, data: Json, deleted: bool, now_s: float) -> None:
        """A node: by its labels it is known which volumes it reaches."""
        name = data["metadata"]["name"]
        labels = NO_LABELS if deleted else data["metadata"].get("labels") or NO_LABELS
        if self.labels.get(name) != labels:
            self._since_s["node", name] = now_s
        self.labels[name] = labels

    def see_claim(self, data: Json, deleted: bool, now_s: float) -> state.PersistentVolumeClaim | None:
        """A claim; returns what there was under its name."""
        meta = data["metadata"]
        name = (meta["namespace"], meta["name"])
        before = self.objects.claim(name)
        now = None if deleted else read_claim(data)
        if before is None or now is None or _of_claim(before) != _of_claim(now):
            self._since_s["claim", *name] = now_s
        self.objects.see_claim(name, now)
        return before

    def see_volume(self, data: Json, deleted: bool, now_s: float) -> state.PersistentVolume | None:
        """A volume; returns what there was under its name."""
        name = data["metadata"]["name"]
        before = self.objects.volume(name)
        now = None if deleted else read_volume(data)
        if before is None or now is None or _of_volume(before) != _of_volume(now):
            self._since_s["volume", name] = now_s
        self.objects.see_volume(name, now)
        return before

    def see_class(self, data: Json, deleted: bool) -> None:
        """A StorageClass."""
        read = msgspec.convert(data, kube.StorageClass)
        made = state.StorageClass(
            name=read.metadata.name,
            version=version_of(data),
            provisioner=read.provisioner,
            binding_mode=read.volume_binding_mode,
        )
        self.objects.see_class(read.metadata.name, None if deleted else made)

    def see_csi_node(self, data: Json, deleted: bool, now_s: float) -> None:
        """How many volumes of each driver a node takes."""
        read = msgspec.convert(data, kube.CSINode)
        drivers = [
            state.CSINodeDriver(name=each.name, count=each.allocatable.count) for each in read.spec.drivers or ()
        ]
        before = self.objects.csi_node(read.metadata.name)
        if before is None or deleted or before.drivers != drivers:
            self._since_s["csinode", read.metadata.name] = now_s
        made = state.CSINode(name=read.metadata.name, version=version_of(data), drivers=drivers)
        self.objects.see_csi_node(read.metadata.name, None if deleted else made)


def read_claim(data: Json) -> state.PersistentVolumeClaim:
    """What of a claim the laws ask for. Raises msgspec.ValidationError."""
    read = msgspec.convert(data, kube.PersistentVolumeClaim)
    meta, notes = read.metadata, read.metadata.annotations or {}
    owners = [each.uid for each in meta.owner_references or () if each.controller]
    return state.PersistentVolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=version_of(data),
        storage_class=notes.get(names.ANNOTATION_STORAGE_CLASS, read.spec.storage_class_name),
        volume=read.spec.volume_name,
        is_bound=names.ANNOTATION_BIND_COMPLETED in notes,
        access_modes=read.spec.access_modes or [],
        owner_uid=owners[0] if owners else "",
        deleting=meta.deletion_timestamp is not None,
    )


def read_volume(data: Json) -> state.PersistentVolume:
    """What of a volume the laws ask for. Raises msgspec.ValidationError."""
    read = msgspec.convert(data, kube.PersistentVolume)
    spec, claim = read.spec, read.spec.claim_ref
    return state.PersistentVolume(
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=version_of(data),
        labels=read.metadata.labels or {},
        storage_class=spec.storage_class_name,
        claim=f"{claim.namespace}/{claim.name}" if claim is not None else "",
        claim_uid=claim.uid if claim is not None else "",
        node_affinity=spec.node_affinity.required if spec.node_affinity is not None else None,
        driver=spec.csi.driver if spec.csi is not None else "",
        handle=spec.csi.volume_handle if spec.csi is not None else "",
        deleting=read.metadata.deletion_timestamp is not None,
    )


def mounter_of(data: Json) -> Mounter | None:
    """A pod with the claims that it names; None where it names none."""
    uses: list[state.VolumeUse] = []
    for volume in (data.get("spec") or {}).get("volumes") or ():
        if volume.get(CLAIM_SOURCE):
            uses.append(state.VolumeUse(source=CLAIM_SOURCE, claim=volume[CLAIM_SOURCE]["claimName"]))
        elif volume.get(EPHEMERAL_SOURCE):
            uses.append(state.VolumeUse(source=EPHEMERAL_SOURCE, claim=volume["name"]))
    meta = data["metadata"]
    return Mounter(meta.get("namespace") or "", meta["name"], meta["uid"], uses) if uses else None


def named(pod: Mounter) -> frozenset[ClaimName]:
    """The claims that other pods can name as well."""
    return frozenset((pod.namespace, each.claim) for each in pod.volumes if each.source == CLAIM_SOURCE)


def _of_claim(claim: state.PersistentVolumeClaim) -> tuple[object, ...]:
    return (claim.uid, claim.volume, claim.is_bound, claim.deleting)


def _of_volume(volume: state.PersistentVolume) -> tuple[object, ...]:
    return (volume.uid, volume.claim, volume.claim_uid, volume.labels, volume.deleting)
