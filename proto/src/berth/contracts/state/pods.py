"""Pods, as far as they are placed."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.kube import Affinity, OwnerReference, Toleration, TopologySpreadConstraint
from berth.contracts.state.amounts import Amounts


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
