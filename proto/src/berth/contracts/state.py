"""STATE: what the cluster looks like now, one message per object, written by cluster-watcher alone.

Objects are flattened and their amounts are integers: cpu in thousandths of a core, everything else in its base unit
(bytes, pieces). `version` is the object's resource version. What could not be read is left out and named in
`problems`, so that a malformed object is refused with a reason instead of vanishing; kinds without `problems` are
carried as far as they are well-formed. In a large object, texts are cut off after 32 KiB. A deleted object leaves a
deletion marker whose payload is the resource version of the deletion, so a key's version never goes down.
"""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    NodeSelector,
    ObjectReference,
    OwnerReference,
    ReservationCondition,
    ReservationOwner,
    ReservationScheduleStatus,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)

Amounts = dict[str, Integer]


class HostPort(Part, frozen=True, kw_only=True):
    """A port of the node that the pod takes; an empty address means all of them."""

    port: Integer
    protocol: str = "TCP"
    host_ip: str = ""


class VolumeUse(Part, frozen=True, kw_only=True):
    """A volume of a pod that may tie it to nodes: `source` is its field in the specification.

    `claim` is the name of its PersistentVolumeClaim (`persistentVolumeClaim`; for `ephemeral` the volume's own name,
    since the claim is called after pod and volume). `disk` identifies an inline disk among those of its source
    (`gcePersistentDisk`: pdName; `awsElasticBlockStore`: volumeID; `iscsi`: iqn; `rbd`: pool, image, monitors).
    """

    source: str
    claim: str = ""
    disk: list[str] = []
    read_only: bool = False


class DeviceContainer(Part, frozen=True, kw_only=True):
    """A container of a pod that has devices, and what of them it asks for itself.

    `init`: it ends before the others begin. An init container that is restarted runs beside them, and is none.
    """

    name: str
    init: bool = False
    requests: Amounts = {}


class BatchContainer(Part, frozen=True, kw_only=True):
    """A container of a pod, and what it asks for of batch resources (init containers are none)."""

    name: str
    requests: Amounts = {}
    limits: Amounts = {}


class PodTemplate(Part, frozen=True, kw_only=True):
    """What of a pod or of a Reservation's template decides where it can run.

    `requests` is the scheduling request: containers, init containers, sidecars, overhead; `overhead` repeats the last,
    which is for what runs beside the containers. `limits` are the effective limits by the rule of `requests`, of
    resources for which a container has one. `kube_qos` is Kubernetes' own QoS class (`Guaranteed`, `Burstable`,
    `BestEffort`). `scored` has what cpu and memory count for in scores where that is not their request: a container
    without one counts 100m or 200 MiB, and requests of the pod level do not count until it is bound. `images` are those
    of containers and init containers, in order, a name as often as it is used. `device_containers` are the containers
    and init containers, in order, where one of several asks for devices; else none. `priority` is the object's, or the
    `koordinator.sh/priority` label of a Reservation whose template has none. `constraints` lists paths of further
    fields that limit placement and are not carried here (`spec.resourceClaims`, ...): a placer that does not know a
    path has to refuse the pod by that name. `batch_containers` are the containers that ask for batch resources.
    """

    requests: Amounts = {}
    overhead: Amounts = {}
    limits: Amounts = {}
    kube_qos: str = ""
    scored: Amounts = {}
    scheduler: str = ""
    priority: Integer = 0
    priority_class: str = ""
    preemption_policy: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    topology_spread: list[TopologySpreadConstraint] = []
    tolerations: list[Toleration] = []
    host_ports: list[HostPort] = []
    volumes: list[VolumeUse] = []
    images: list[str] = []
    device_containers: list[DeviceContainer] = []
    gates: list[str] = []
    constraints: list[str] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    batch_containers: list[BatchContainer] = []


class Pod(Message, frozen=True, kw_only=True, tag="pod.seen.v1"):
    """A pod. Its template's `labels` are complete, the `annotations` those that Berth reads. Unbound: `node` is empty.

    `attempt` and `plan` repeat Berth's own annotations: how many decisions for this uid were withdrawn, and the plan it
    was bound under. Times are RFC 3339, empty where they are not set: `created`, `scheduled` (since when its condition
    PodScheduled is True), `started` (when kubelet took it up), `initialized` (since when its condition Initialized is
    True), `deletes_at` (the deletion timestamp: when the grace period ends). `unschedulable` is the message of a
    condition PodScheduled=False with reason Unschedulable, at most 1,024 characters; `disruption` the reason of a
    condition DisruptionTarget=True; `nominated` is `status.nominatedNodeName`. `mirror`: it is the copy of a pod that
    its kubelet has from a file. `ready` repeats the condition Ready of a placeholder (label `operating-mode`); of
    others it is false. `limited_volumes` is there where the pod limits the disks of its volumes (annotation
    `blkioQOS`): the claim of each volume by the pod's name for it, empty for an inline CSI volume.
    """

    namespace: str
    name: str
    uid: str
    version: Integer
    template: PodTemplate = PodTemplate()
    node: str = ""
    phase: str = ""
    created: str = ""
    deleting: bool = False
    attempt: Integer = 0
    plan: str = ""
    owners: list[OwnerReference] = []
    unschedulable: str = ""
    scheduled: str = ""
    started: str = ""
    initialized: str = ""
    deletes_at: str = ""
    disruption: str = ""
    nominated: str = ""
    mirror: bool = False
    problems: list[Problem] = []
    ready: bool = False
    limited_volumes: dict[str, str] = {}


class Node(Message, frozen=True, kw_only=True, tag="node.seen.v1"):
    """A node with what it offers. `ready` repeats its Ready condition, `unschedulable` that it is cordoned.

    `allocatable` is without what the node's annotation `reservation` keeps from pods. `images` has the size in bytes of
    each image there, by every name that it has.
    """

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    allocatable: Amounts = {}
    capacity: Amounts = {}
    taints: list[Taint] = []
    unschedulable: bool = False
    ready: bool = False
    deleting: bool = False
    created: str = ""
    images: dict[str, Integer] = {}
    problems: list[Problem] = []


class Namespace(Message, frozen=True, kw_only=True, tag="namespace.seen.v1"):
    """A namespace."""

    name: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PriorityClass(Message, frozen=True, kw_only=True, tag="priorityclass.seen.v1"):
    """A priority class; a `value` beyond 32 bits is held within them."""

    name: str
    version: Integer
    value: Integer = 0
    global_default: bool = False
    preemption_policy: str = ""


class ConfigMap(Message, frozen=True, kw_only=True, tag="configmap.seen.v1"):
    """One of the ConfigMaps that the watcher is configured to follow."""

    namespace: str
    name: str
    version: Integer
    data: dict[str, str] = {}


class PodDisruptionBudget(Message, frozen=True, kw_only=True, tag="poddisruptionbudget.seen.v1"):
    """A PodDisruptionBudget. Counts are numbers, percentages text; `disrupted` names pods whose eviction it has counted
    already."""

    namespace: str
    name: str
    version: Integer
    selector: LabelSelector | None = None
    min_available: Integer | str | None = None
    max_unavailable: Integer | str | None = None
    disruptions_allowed: Integer = 0
    disrupted: list[str] = []


class Service(Message, frozen=True, kw_only=True, tag="service.seen.v1"):
    """A Service: it selects the pods of its namespace that have all labels of `selector`; an empty one selects none.

    Of this kind and of the controllers below, changes that leave the message as it was are not written: `version` is
    that of the last one that counted.
    """

    namespace: str
    name: str
    version: Integer
    selector: dict[str, str] = {}


class ReplicationController(Message, frozen=True, kw_only=True, tag="replicationcontroller.seen.v1"):
    """A ReplicationController, with the labels that its pods have."""

    namespace: str
    name: str
    version: Integer
    selector: dict[str, str] = {}


class ReplicaSet(Message, frozen=True, kw_only=True, tag="replicaset.seen.v1"):
    """A ReplicaSet; `selector` None: it has none that could be carried."""

    namespace: str
    name: str
    version: Integer
    selector: LabelSelector | None = None


class StatefulSet(Message, frozen=True, kw_only=True, tag="statefulset.seen.v1"):
    """A StatefulSet; `selector` as of a ReplicaSet."""

    namespace: str
    name: str
    version: Integer
    selector: LabelSelector | None = None


class PodGroup(Message, frozen=True, kw_only=True, tag="podgroup.seen.v1"):
    """A PodGroup: a gang by object. `phase` and the counts repeat its status."""

    namespace: str
    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    min_member: Integer = 0
    schedule_timeout_s: Integer | None = None
    created: str = ""
    phase: str = ""
    occupied_by: str = ""
    scheduled: Integer = 0
    running: Integer = 0
    succeeded: Integer = 0
    failed: Integer = 0
    schedule_start_time: str = ""
    problems: list[Problem] = []


class NetworkLayer(Part, frozen=True, kw_only=True):
    """A layer of the network: its name, the layer above it, and the labels of which the first with a value names a
    node's domain."""

    name: str
    parent: str = ""
    label_keys: list[str] = []


class ClusterNetworkTopology(Message, frozen=True, kw_only=True, tag="clusternetworktopology.seen.v1"):
    """A ClusterNetworkTopology: the layers as they are listed. Only the object `default` counts.

    `status` is a digest of what its status says, for its writer to compare.
    """

    name: str
    uid: str
    version: Integer
    layers: list[NetworkLayer] = []
    status: str = ""
    problems: list[Problem] = []


class ElasticQuota(Message, frozen=True, kw_only=True, tag="elasticquota.seen.v1"):
    """An ElasticQuota: a group of the quota tree; labels and annotations carry its place and settings.

    An amount of `min` or `max` that cannot be read is 0, since without it the resource would be free.
    """

    namespace: str
    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    min: Amounts = {}
    max: Amounts = {}
    used: Amounts = {}
    created: str = ""
    deleting: bool = False
    problems: list[Problem] = []


class ElasticQuotaProfile(Message, frozen=True, kw_only=True, tag="elasticquotaprofile.seen.v1"):
    """An ElasticQuotaProfile: the root quota of a tree, and the nodes of that tree. `ratio` is as it is written."""

    namespace: str
    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    quota_name: str = ""
    quota_labels: dict[str, str] = {}
    ratio: str = ""
    selector: LabelSelector | None = None
    deleting: bool = False
    problems: list[Problem] = []


class DeviceTopology(Part, frozen=True, kw_only=True):
    """Where a device sits; -1 and the empty text mean unknown."""

    socket: Integer = -1
    numa_node: Integer = -1
    pcie: str = ""
    bus: str = ""


class DeviceFunction(Part, frozen=True, kw_only=True):
    """A virtual function of a device, by its bus address. `minor` -1 is none, `labels` are those of its group."""

    bus: str
    minor: Integer = -1
    labels: dict[str, str] = {}


class DeviceInfo(Part, frozen=True, kw_only=True):
    """One device of a node. `position` is its index in the object, for messages about it.

    `reason` is that of its condition `Healthy`, where this says False.
    """

    kind: str
    minor: Integer
    uuid: str = ""
    healthy: bool = False
    amounts: Amounts = {}
    labels: dict[str, str] = {}
    topology: DeviceTopology | None = None
    position: Integer = 0
    functions: list[DeviceFunction] = []
    reason: str = ""


class Device(Message, frozen=True, kw_only=True, tag="device.seen.v1"):
    """The devices that a node's agent reports; `name` is the node's."""

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    devices: list[DeviceInfo] = []
    deleting: bool = False
    problems: list[Problem] = []


class Reservation(Message, frozen=True, kw_only=True, tag="reservation.seen.v1"):
    """A Reservation.

    `ttl_s` 0 means for ever; None that `expires` counts instead, or that the ttl could not be read (a problem then);
    with neither given it is a day. `required_node` is the node that the template names, `namespace` the template's.
    `attempt` and `plan` are as for a pod; from `phase` to `current_owners`, fields repeat the object's status.
    `pre_allocation`: it may take over pods that run; `pre_allocation_mode` says which (`Default`, `Cluster`, or
    nothing, which is `Default`), `pre_allocation_multiple` that it may be more than one.
    `is_priority_set`: its author has said which priority it has; without a word it is the highest.
    """

    name: str
    uid: str
    version: Integer
    template: PodTemplate = PodTemplate()
    namespace: str = "default"
    required_node: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: list[ReservationOwner] = []
    ttl_s: float | None = None
    expires: str = ""
    allocate_once: bool = True
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: list[Taint] = []
    pre_allocation: bool = False
    created: str = ""
    deleting: bool = False
    attempt: Integer = 0
    plan: str = ""
    phase: str = ""
    node: str = ""
    allocatable: Amounts = {}
    allocated: Amounts = {}
    conditions: list[ReservationCondition] = []
    current_owners: list[ObjectReference] = []
    problems: list[Problem] = []
    pre_allocation_mode: str = ""
    pre_allocation_multiple: bool = False
    is_priority_set: bool = False


class ReservationSchedule(Message, frozen=True, kw_only=True, tag="reservationschedule.seen.v1"):
    """A ReservationSchedule: by which calendar Reservations are made, and what of.

    `duration_s` and `lead_s` are 0 where they could not be read (a problem then). `labels`, `annotations` and `spec`
    are those of the Reservations; `spec` is empty where they are larger than 32 KiB. `status` repeats the object's.
    """

    name: str
    uid: str
    version: Integer
    cron: str = ""
    time_zone: str = ""
    duration_s: float = 0.0
    lead_s: float = 0.0
    displaces: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}
    deleting: bool = False
    status: ReservationScheduleStatus = ReservationScheduleStatus()
    problems: list[Problem] = []


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


class NodeResourceTopology(Message, frozen=True, kw_only=True, tag="noderesourcetopology.seen.v1"):
    """Cores and NUMA nodes as reported, kept as read. `uid` is empty where nobody carries it."""

    name: str
    version: Integer
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    zones: list[dict[str, Any]] = []
    policies: list[str] = []
    deleting: bool = False


class NodeMetric(Message, frozen=True, kw_only=True, tag="nodemetric.seen.v1"):
    """Usage as an agent of the protocol reports it, kept as read. `report_interval_s` is what its policy says, 0 where
    that says nothing."""

    name: str
    version: Integer
    report_interval_s: Integer = 0
    status: dict[str, Any] = {}


class NodeSLO(Message, frozen=True, kw_only=True, tag="nodeslo.seen.v1"):
    """A NodeSLO object, as far as it says what became of slo-manager's requests for it; `name` is its node's.

    `revision` is that of the request that it was last written for (0: it says none), `owner_uid` the uid of the node
    that owns it (empty: no node does).
    """

    name: str
    uid: str
    version: Integer
    revision: Integer = 0
    owner_uid: str = ""


class ClusterColocationProfile(Message, frozen=True, kw_only=True, tag="clustercolocationprofile.seen.v1"):
    """A ClusterColocationProfile: how pods that it selects are changed when they are created. `spec` is kept as read,
    and empty where it is larger than 64 KiB (a problem then)."""

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}
    deleting: bool = False
    problems: list[Problem] = []


class MutatingWebhookConfiguration(Message, frozen=True, kw_only=True, tag="mutatingwebhookconfiguration.seen.v1"):
    """Berth's MutatingWebhookConfiguration, as the API server has it.

    `webhooks` are its entries without their `caBundle`. `ca_bundle` is that of all entries as text (PEM), empty where
    they differ, where one cannot be read, or where there are none.
    """

    name: str
    uid: str
    version: Integer
    webhooks: list[dict[str, Any]] = []
    ca_bundle: str = ""


class ValidatingWebhookConfiguration(Message, frozen=True, kw_only=True, tag="validatingwebhookconfiguration.seen.v1"):
    """Berth's ValidatingWebhookConfiguration, as `MutatingWebhookConfiguration`."""

    name: str
    uid: str
    version: Integer
    webhooks: list[dict[str, Any]] = []
    ca_bundle: str = ""


class Synced(Message, frozen=True, kw_only=True, tag="synced.set.v1"):
    """Through which resource version a kind (`pods`, `nodes`, ...) is complete.

    `complete` is false before the first write of a relist and true after its last. While changes go by that need no
    write, the marker alone moves on, about once a second. Of ConfigMaps only some are followed: each has a marker of
    its own, by its key (`configmap.<namespace>.<name>`).
    """

    kind: str
    version: Integer
    complete: bool
