"""Claims, volumes, and what drivers say of them."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.kube import LabelSelector, NodeSelector


class PersistentVolumeClaim(Message, frozen=True, kw_only=True, tag="persistentvolumeclaim.seen.v1"):
    """A PersistentVolumeClaim.

    `storage_class` is None where none is named. `volume` is the bound PersistentVolume (`spec.volumeName`), `is_bound`
    that the claim says so as well (annotation `bind-completed`), `selected_node` the node that provisioning was asked
    for, `requested` in bytes, `owner_uid` the uid of the controlling owner (the pod of an ephemeral volume).
    """

    namespace: str
    name: str
    uid: str
    version: Integer
    storage_class: str | None = None
    volume: str = ""
    is_bound: bool = False
    access_modes: list[str] = []
    volume_mode: str = ""
    requested: Integer = 0
    selector: LabelSelector | None = None
    phase: str = ""
    selected_node: str = ""
    owner_uid: str = ""
    deleting: bool = False
    problems: list[Problem] = []


class PersistentVolume(Message, frozen=True, kw_only=True, tag="persistentvolume.seen.v1"):
    """A PersistentVolume.

    `driver` and `handle` say what it is; an in-tree source has its `plugin` beside the CSI driver that came after it.

    `claim` is `namespace/name` of the claim that it is bound to or kept for, with `claim_uid` once that is known.
    `capacity` in bytes; `node_affinity` None: every node reaches it.
    """

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    capacity: Integer = 0
    access_modes: list[str] = []
    storage_class: str = ""
    volume_mode: str = ""
    claim: str = ""
    claim_uid: str = ""
    phase: str = ""
    node_affinity: NodeSelector | None = None
    driver: str = ""
    handle: str = ""
    plugin: str = ""
    deleting: bool = False
    problems: list[Problem] = []


class TopologyTerm(Part, frozen=True, kw_only=True):
    """Values of labels, all of which a node has to have one of."""

    values: dict[str, list[str]] = {}


class StorageClass(Message, frozen=True, kw_only=True, tag="storageclass.seen.v1"):
    """A StorageClass. `binding_mode` is Immediate or WaitForFirstConsumer; `allowed` lists topologies, one of which a
    node has to have; empty: every node."""

    name: str
    version: Integer
    provisioner: str = ""
    binding_mode: str = ""
    allowed: list[TopologyTerm] = []


class CSINodeDriver(Part, frozen=True, kw_only=True):
    """A CSI driver on a node: how many volumes it takes there (None: no limit), and by which labels nodes differ."""

    name: str
    node_id: str = ""
    count: Integer | None = None
    topology_keys: list[str] = []


class CSINode(Message, frozen=True, kw_only=True, tag="csinode.seen.v1"):
    """The CSI drivers of a node; `migrated` are the in-tree plugins whose volumes they serve."""

    name: str
    version: Integer
    drivers: list[CSINodeDriver] = []
    migrated: list[str] = []


class CSIDriver(Message, frozen=True, kw_only=True, tag="csidriver.seen.v1"):
    """A CSI driver; `storage_capacity`: it reports how much can be provisioned where."""

    name: str
    version: Integer
    storage_capacity: bool = False


class CSIStorageCapacity(Message, frozen=True, kw_only=True, tag="csistoragecapacity.seen.v1"):
    """How much of a StorageClass can be provisioned on the nodes of a topology, in bytes.

    None: not said. `topology` None: nowhere.
    """

    namespace: str
    name: str
    version: Integer
    storage_class: str = ""
    topology: LabelSelector | None = None
    capacity: Integer | None = None
    volume_max: Integer | None = None


class VolumeAttachment(Message, frozen=True, kw_only=True, tag="volumeattachment.seen.v1"):
    """A volume that is attached to a node, or being attached."""

    name: str
    version: Integer
    driver: str = ""
    node: str = ""
    volume: str = ""
