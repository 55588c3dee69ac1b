"""How many volumes of a CSI driver a node takes: kube-scheduler's NodeVolumeLimits.

A volume is one, however many pods of the node use it. A claim without a volume counts as one of the driver that will
make it. Volumes of in-tree plugins count for the driver that serves them, where the node says that it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final, NamedTuple

from berth.contracts.state import CSINode, PersistentVolumeClaim, VolumeAttachment, VolumeUse
from berth.rules.storage import (
    Mounter,
    Storage,
    StorageRejection,
    claim_not_found,
    claims_used,
    not_of_the_pod,
    uses_claims,
)

REASON: Final = "node(s) exceed max volume count"
TOO_MANY: Final = StorageRejection((REASON,), resolvable=True)

CSI_OF_PLUGIN: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""In-tree plugins, and the drivers that serve their volumes."""
_PLUGIN_OF_SOURCE: Final = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "azureDisk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "portworxVolume": "kubernetes.io/portworx-volume",
}


class Attachable(NamedTuple):
    """A volume that takes a place on its node. `plugin` is the in-tree plugin that it counts by only where the node's
    CSINode lists it as migrated; empty: it always counts."""

    driver: str
    handle: str
    plugin: str = ""

    @property
    def identity(self) -> str:
        """What tells it from other volumes, whichever way it is mounted."""
        return f"{self.driver}/{self.handle}"


def concerns(volumes: Iterable[VolumeUse]) -> bool:
    """Whether the volumes may take places on a node."""
    volumes = tuple(volumes)
    return uses_claims(volumes) or any(volume.source in _PLUGIN_OF_SOURCE for volume in volumes)


def wanted_volumes(pod: Mounter, storage: Storage) -> frozenset[Attachable] | StorageRejection:
    """The volumes that a pod to be placed takes places for; a Rejection when a claim is not there, or not its own."""
    found = set(_inline(pod))
    for used in claims_used(pod):
        claim = storage.claim((pod.namespace, used.name))
        if claim is None:
            return StorageRejection((f"looking up PVC {pod.namespace}/{used.name}: {claim_not_found(used.name)}",))
        if used.is_ephemeral and (problem := not_of_the_pod(claim, pod)):
            return StorageRejection((problem,))
        found.update(_of_claim(claim, storage))
    return frozenset(found)


def held_volumes(pod: Mounter, storage: Storage) -> frozenset[Attachable]:
    """The volumes that a pod on a node takes places for. What cannot be found is not counted."""
    found = set(_inline(pod))
    for used in claims_used(pod):
        claim = storage.claim((pod.namespace, used.name))
        if claim is not None and not (used.is_ephemeral and not_of_the_pod(claim, pod)):
            found.update(_of_claim(claim, storage))
    return frozenset(found)


def attached_volumes(attachments: Iterable[VolumeAttachment], storage: Storage) -> frozenset[Attachable]:
    """The volumes that attachments say are on a node."""
    found = set()
    for attachment in attachments:
        volume = storage.volume(attachment.volume) if attachment.driver and attachment.volume else None
        if volume is not None and volume.handle:
            found.add(Attachable(attachment.driver, volume.handle))
    return frozenset(found)


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """How many volumes the node takes of each driver that limits them."""
    if csi_node is None:
        return {}
    return {driver.name: driver.count for driver in csi_node.drivers if driver.count is not None}


def migrated(csi_node: CSINode | None) -> frozenset[str]:
    """The in-tree plugins whose volumes the node's drivers serve."""
    return frozenset(csi_node.migrated) if csi_node is not None else frozenset()


def counted(volumes: Iterable[Attachable], plugins: Set[str]) -> dict[str, str]:
    """The driver of each volume that counts on a node with these migrated plugins, by identity."""
    return {each.identity: each.driver for each in volumes if not each.plugin or each.plugin in plugins}


def exceeds(wanted: Mapping[str, str], there: Mapping[str, str], limits: Mapping[str, int]) -> bool:
    """Whether the wanted volumes beside those that are there are more than a driver takes. Drivers by identity."""
    added: dict[str, int] = {}
    for identity, driver in wanted.items():
        if driver in limits and identity not in there:
            added[driver] = added.get(driver, 0) + 1
    if not added:
        return False
    present: dict[str, int] = {}
    for driver in there.values():
        present[driver] = present.get(driver, 0) + 1
    return any(present.get(driver, 0) + more > limits[driver] for driver, more in added.items())


def _of_claim(claim: PersistentVolumeClaim, storage: Storage) -> Iterable[Attachable]:
    """The volume of a claim, or the one that its class will make; none where neither is known.

    A claim without a class that is there binds at once, so it counts by its volume as soon as it has one.
    """
    volume = storage.volume(claim.volume) if claim.volume else None
    if volume is not None:
        if volume.driver and volume.handle and volume.plugin in ("", *CSI_OF_PLUGIN):
            yield Attachable(volume.driver, volume.handle, volume.plugin)
        return
    storage_class = storage.storage_class(claim.storage_class) if claim.storage_class else None
    if storage_class is not None and storage_class.provisioner:
        provisioner = storage_class.provisioner
        plugin = provisioner if provisioner in CSI_OF_PLUGIN else ""
        # No handle of a driver begins like this: the volume to come is another one than all that are there.
        yield Attachable(CSI_OF_PLUGIN.get(provisioner, provisioner), f"\0{claim.namespace}/{claim.name}", plugin)


def _inline(pod: Mounter) -> Iterable[Attachable]:
    for volume in pod.volumes:
        plugin = _PLUGIN_OF_SOURCE.get(volume.source)
        if plugin is not None and volume.disk:
            # A volume of EBS may be written with its zone before it: aws://zone/vol-1.
            handle = volume.disk[0].rpartition("/")[2] if plugin == "kubernetes.io/aws-ebs" else volume.disk[0]
            yield Attachable(CSI_OF_PLUGIN[plugin], handle, plugin)
