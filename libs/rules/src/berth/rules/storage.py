"""Claims, volumes and what drivers report: the objects of storage, as the rules about volumes read them.

Every rule says what speaks against a pod as a `Rejection` with kube-scheduler's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from berth.contracts.state import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeUse,
)

CLAIM_SOURCE: Final = "persistentVolumeClaim"
EPHEMERAL_SOURCE: Final = "ephemeral"
WAIT_FOR_CONSUMER: Final = "WaitForFirstConsumer"
ONE_POD: Final = "ReadWriteOncePod"

ClaimName = tuple[str, str]
"""Namespace and name of a claim."""
K = TypeVar("K")
V = TypeVar("V")


class StorageRejection(NamedTuple):
    """Why a pod cannot go to a node, or (before nodes are looked at) to any.

    `resolvable`: it may help that other pods leave (Unschedulable; else UnschedulableAndUnresolvable).
    """

    reasons: tuple[str, ...]
    resolvable: bool = False


class Mounter(NamedTuple):
    """A pod as far as its volumes are concerned."""

    namespace: str
    name: str
    uid: str
    volumes: Sequence[VolumeUse]


class ClaimUse(NamedTuple):
    """A claim that a pod uses, by its name in the pod's namespace. `is_ephemeral`: it is made for this pod alone."""

    name: str
    is_ephemeral: bool


class Storage(Protocol):
    """The objects of storage, as one view shows them."""

    def claim(self, name: ClaimName) -> PersistentVolumeClaim | None: ...
    def volume(self, name: str) -> PersistentVolume | None: ...
    def storage_class(self, name: str) -> StorageClass | None: ...
    def csi_node(self, name: str) -> CSINode | None: ...
    def csi_driver(self, name: str) -> CSIDriver | None: ...
    def volumes_of_class(self, name: str) -> Collection[PersistentVolume]: ...
    def volumes_kept_for(self, claim: ClaimName) -> Collection[PersistentVolume]: ...
    def capacities_of(self, storage_class: str) -> Collection[CSIStorageCapacity]: ...
    def attachments_on(self, node: str) -> Collection[VolumeAttachment]: ...


class StorageObjects:
    """The objects of storage by name, with what is asked for often by its key."""

    def __init__(self) -> None:
        self.claims: dict[ClaimName, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self._naming: dict[str, dict[ClaimName, PersistentVolumeClaim]] = {}
        self._of_class: dict[str, dict[str, PersistentVolume]] = {}
        self._kept_for: dict[str, dict[str, PersistentVolume]] = {}
        self._capacities: dict[ClaimName, CSIStorageCapacity] = {}
        self._capacities_of: dict[str, dict[ClaimName, CSIStorageCapacity]] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._attached: dict[str, dict[str, VolumeAttachment]] = {}
        self._attachments_of: dict[str, dict[str, VolumeAttachment]] = {}

    def clear(self) -> None:
        """Nothing is known any more."""
        self.__init__()  # type: ignore[misc]

    # --- what is seen ------------------------------------------------------------------------------------------------

    def see_claim(self, name: ClaimName, claim: PersistentVolumeClaim | None) -> None:
        """A claim as it is now; None: it is deleted."""
        before = _put(self.claims, name, claim)
        _index(self._naming, name, claim, lambda each: each.volume, before)

    def see_volume(self, name: str, volume: PersistentVolume | None) -> None:
        """A volume as it is now; None: it is deleted."""
        before = _put(self.volumes, name, volume)
        _index(self._of_class, name, volume, lambda each: each.storage_class, before)
        _index(self._kept_for, name, volume, lambda each: each.claim, before)

    def see_class(self, name: str, storage_class: StorageClass | None) -> None:
        """A StorageClass as it is now; None: it is deleted."""
        _put(self.classes, name, storage_class)

    def see_csi_node(self, name: str, csi_node: CSINode | None) -> None:
        """The drivers of a node as they are now; None: nothing is said of them."""
        _put(self.csi_nodes, name, csi_node)

    def see_csi_driver(self, name: str, driver: CSIDriver | None) -> None:
        """A driver as it is now; None: it is deleted."""
        _put(self.csi_drivers, name, driver)

    def see_capacity(self, name: ClaimName, capacity: CSIStorageCapacity | None) -> None:
        """What can be provisioned somewhere as it is now; None: nothing is said of it any more."""
        before = _put(self._capacities, name, capacity)
        _index(self._capacities_of, name, capacity, lambda each: each.storage_class, before)

    def see_attachment(self, name: str, attachment: VolumeAttachment | None) -> None:
        """An attachment as it is now; None: it is deleted."""
        before = _put(self._attachments, name, attachment)
        _index(self._attached, name, attachment, lambda each: each.node, before)
        _index(self._attachments_of, name, attachment, lambda each: each.volume, before)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def claim(self, name: ClaimName) -> PersistentVolumeClaim | None:
        """The claim of this name."""
        return self.claims.get(name)

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume of this name."""
        return self.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        """The StorageClass of this name."""
        return self.classes.get(name)

    def csi_node(self, name: str) -> CSINode | None:
        """The drivers of this node."""
        return self.csi_nodes.get(name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        """The driver of this name."""
        return self.csi_drivers.get(name)

    def volumes_of_class(self, name: str) -> Collection[PersistentVolume]:
        """The volumes of a class, which may be the empty one."""
        return self._of_class.get(name, {}).values()

    def volumes_kept_for(self, claim: ClaimName) -> Collection[PersistentVolume]:
        """The volumes that name this claim as theirs, or a former claim of that name."""
        return self._kept_for.get("/".join(claim), {}).values()

    def claims_naming(self, volume: str) -> Collection[PersistentVolumeClaim]:
        """The claims that name this volume as theirs."""
        return self._naming.get(volume, {}).values()

    def capacities_of(self, storage_class: str) -> Collection[CSIStorageCapacity]:
        """What is said of how much of a class can be provisioned."""
        return self._capacities_of.get(storage_class, {}).values()

    def attachments_on(self, node: str) -> Collection[VolumeAttachment]:
        """The attachments to a node."""
        return self._attached.get(node, {}).values()

    def attachments_of(self, volume: str) -> Collection[VolumeAttachment]:
        """The attachments of a volume."""
        return self._attachments_of.get(volume, {}).values()


def claims_used(pod: Mounter) -> Iterator[ClaimUse]:
    """The claims that a pod uses, one for each of its volumes that has one."""
    for volume in pod.volumes:
        if volume.source == CLAIM_SOURCE:
            yield ClaimUse(volume.claim, is_ephemeral=False)
        elif volume.source == EPHEMERAL_SOURCE:
            yield ClaimUse(f"{pod.name}-{volume.claim}", is_ephemeral=True)


def uses_claims(volumes: Iterable[VolumeUse]) -> bool:
    """Whether one of the volumes has a claim."""
    return any(volume.source in (CLAIM_SOURCE, EPHEMERAL_SOURCE) for volume in volumes)


def is_for_one_pod(claim: PersistentVolumeClaim) -> bool:
    """Whether one pod of the cluster at most may use the claim."""
    return ONE_POD in claim.access_modes


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is kept for this claim, and not for a former one of its name."""
    return volume.claim == f"{claim.namespace}/{claim.name}" and volume.claim_uid in ("", claim.uid)


def claim_not_found(name: str) -> str:
    """No such claim."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """No such volume."""
    return f'persistentvolume "{name}" not found'


def not_of_the_pod(claim: PersistentVolumeClaim, pod: Mounter) -> str:
    """The claim of an ephemeral volume was made by somebody else; empty when it was made for this pod."""
    if claim.owner_uid == pod.uid:
        return ""
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def _put(objects: dict[K, V], name: K, value: V | None) -> V | None:
    """Write, or with None take out; what stood there before."""
    before = objects.pop(name, None)
    if value is not None:
        objects[name] = value
    return before


def _index(
    index: dict[str, dict[K, V]], name: K, value: V | None, key_of: Callable[[V], str], before: V | None
) -> None:
    """Move an object from the key that it stood under to the one it stands under now."""
    if before is not None:
        named = index[key_of(before)]
        del named[name]
        if not named:
            del index[key_of(before)]
    if value is not None:
        index.setdefault(key_of(value), {})[name] = value
