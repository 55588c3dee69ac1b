"""Storage: claims, volumes, the classes that volumes are made by, and what CSI drivers say of nodes and of themselves.

The sources of volumes are here too, for pods and for PersistentVolumes, as far as they say which disk it is.
"""

from __future__ import annotations

import msgspec

from berth.contracts.kube.meta import Meta, Quantity, View
from berth.contracts.kube.reservations import ObjectReference
from berth.contracts.kube.selectors import LabelSelector, NodeSelector


class ClaimSource(View, frozen=True, kw_only=True):
    """volumes[].persistentVolumeClaim of a pod."""

    claim_name: str = ""
    read_only: bool = False


class DiskSource(View, frozen=True, kw_only=True):
    """gcePersistentDisk, awsElasticBlockStore, azureDisk, cinder, portworxVolume, vsphereVolume: one disk by its name,
    each in its own field."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_uri: str = msgspec.field(default="", name="diskURI")
    volume_path: str = ""
    read_only: bool = False


class ISCSISource(View, frozen=True, kw_only=True):
    """iscsi of a pod."""

    iqn: str = ""
    read_only: bool = False


class RBDSource(View, frozen=True, kw_only=True):
    """rbd: an image of a pool, and the monitors that know it."""

    monitors: list[str] | None = None
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureFileSource(View, frozen=True, kw_only=True):
    """azureFile of a PersistentVolume."""

    share_name: str = ""


class CSISource(View, frozen=True, kw_only=True):
    """csi of a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class ClaimResources(View, frozen=True, kw_only=True):
    """spec.resources of a PersistentVolumeClaim."""

    requests: dict[str, Quantity] | None = None


class ClaimSpec(View, frozen=True, kw_only=True):
    """spec of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = ""


class ClaimStatus(View, frozen=True, kw_only=True):
    """status of a PersistentVolumeClaim."""

    phase: str = ""


class PersistentVolumeClaim(View, frozen=True, kw_only=True):
    """v1 PersistentVolumeClaim."""

    metadata: Meta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeNodeAffinity(View, frozen=True, kw_only=True):
    """spec.nodeAffinity of a PersistentVolume."""

    required: NodeSelector | None = None


class VolumeSpec(View, frozen=True, kw_only=True):
    """spec of a PersistentVolume, with those sources that have a CSI driver."""

    capacity: dict[str, Quantity] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: DiskSource | None = None
    gce_persistent_disk: DiskSource | None = None
    azure_disk: DiskSource | None = None
    azure_file: AzureFileSource | None = None
    cinder: DiskSource | None = None
    portworx_volume: DiskSource | None = None
    vsphere_volume: DiskSource | None = None
    rbd: RBDSource | None = None


class VolumeStatus(View, frozen=True, kw_only=True):
    """status of a PersistentVolume."""

    phase: str = ""


class PersistentVolume(View, frozen=True, kw_only=True):
    """v1 PersistentVolume."""

    metadata: Meta
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(View, frozen=True, kw_only=True):
    """One of matchLabelExpressions of a topology term: the label has one of the values."""

    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(View, frozen=True, kw_only=True):
    """allowedTopologies[] of a StorageClass: all of its requirements hold; an empty one matches nothing."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(View, frozen=True, kw_only=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: list[TopologySelectorTerm] | None = None


class NodeDriverCount(View, frozen=True, kw_only=True):
    """spec.drivers[].allocatable of a CSINode."""

    count: int | None = None


class NodeDriver(View, frozen=True, kw_only=True):
    """spec.drivers[] of a CSINode."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: NodeDriverCount = NodeDriverCount()


class CSINodeSpec(View, frozen=True, kw_only=True):
    """spec of a CSINode."""

    drivers: list[NodeDriver] | None = None


class CSINode(View, frozen=True, kw_only=True):
    """storage.k8s.io/v1 CSINode; its name is the node's."""

    metadata: Meta
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(View, frozen=True, kw_only=True):
    """spec of a CSIDriver."""

    storage_capacity: bool = False


class CSIDriver(View, frozen=True, kw_only=True):
    """storage.k8s.io/v1 CSIDriver."""

    metadata: Meta
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(View, frozen=True, kw_only=True):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    metadata: Meta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachedSource(View, frozen=True, kw_only=True):
    """spec.source of a VolumeAttachment; a volume that a pod describes inline has no name."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(View, frozen=True, kw_only=True):
    """spec of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachedSource = AttachedSource()


class VolumeAttachment(View, frozen=True, kw_only=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    metadata: Meta
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
