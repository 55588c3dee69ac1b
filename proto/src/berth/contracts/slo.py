"""SLO: the quality-of-service strategy of each node, what it lends, and what its agent has to know of its pods; written
by slo-manager alone."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer, Message, Part, Problem

CONFIG_MAP = "berth-system/slo-controller-config"
"""The ConfigMap of strategies, `namespace/name`, unless services are configured with another one."""


class CpuSuppress(Part, frozen=True, kw_only=True):
    """The rule for the CPU of best-effort pods: they get what others leave below `threshold_percent` of the node.

    They keep `min_percent` of the node in any case, nothing when it is None. `policy` is the knob: `cpuset` or
    `cfsQuota`. While not `enabled`, nothing holds them.
    """

    enabled: bool = False
    threshold_percent: Integer = 65
    min_percent: Integer | None = None
    policy: str = "cpuset"


class NodeSLO(Message, frozen=True, kw_only=True, tag="nodeslo.set.v1"):
    """The strategy of one node.

    `spec` is that of the NodeSLO object, whole, with the protocol's names; `cpu_suppress` repeats of it, typed, what
    Berth's node agent heeds. `strategies` names the node strategy that won, by section of the spec; a section that is
    not there follows the cluster's strategy. `uid` is the node's. `configured`: the ConfigMap exists; without it the
    defaults hold, and no NodeSLO object is made of them. `revision` is that of the last request for the object.
    `annotations` are those that slo-manager has the node show, by name; None: that it has none of the name.
    """

    node: str
    uid: str = ""
    cpu_suppress: CpuSuppress = CpuSuppress()
    strategies: dict[str, str] = {}
    spec: dict[str, Any] = {}
    problems: list[Problem] = []
    configured: bool = True
    revision: Integer = 0
    annotations: dict[str, str | None] = {}


class Offer(Part, frozen=True, kw_only=True):
    """What a node lends of one resource: thousandths of a core, or bytes.

    `amount` is exactly the sum of `terms`, by name, as it was worked out when the amount last changed; `inputs` are
    figures behind them.
    """

    amount: Integer = 0
    terms: dict[str, Integer] = {}
    inputs: dict[str, Integer] = {}


class ZoneOffer(Part, frozen=True, kw_only=True):
    """What of it lies in one NUMA node; each by itself, so that their sum need not be the node's."""

    zone: Integer
    amounts: dict[str, Integer] = {}


class NodeOffer(Message, frozen=True, kw_only=True, tag="nodeoffer.set.v1"):
    """What a node lends to batch and mid pods. A resource that `offers` does not name is not lent; `reason` says why.

    `revision` grows with each change of an amount. `origin` are batch resources before third parties have taken theirs,
    `taken` what those have. `strategy` is the node strategy that won, `reporter` whose report counts (`agent`: Berth's,
    `koordlet`), `reported_at` when it arrived, unix seconds. `written` is what the node was last asked to show, a
    resource that is missing to have none of, at `written_at`, unix seconds; 0: never. `parties` are the revisions of
    the entries by which third parties have theirs, for those that name one. `zones_written` is what its
    NodeResourceTopology is to show of the NUMA nodes (one that is missing, nothing of each resource that others have)
    since `zones_written_at`; None: what it shows stays as it is.
    """

    node: str
    uid: str = ""
    revision: Integer = 0
    offers: dict[str, Offer] = {}
    zones: list[ZoneOffer] = []
    origin: dict[str, Integer] = {}
    taken: dict[str, Integer] = {}
    reason: str = ""
    strategy: str = ""
    reporter: str = ""
    reported_at: float = 0.0
    written: dict[str, Integer] = {}
    written_at: float = 0.0
    problems: list[Problem] = []
    parties: dict[str, Integer] = {}
    zones_written: list[ZoneOffer] | None = None
    zones_written_at: float = 0.0


class PodEviction(Part, frozen=True, kw_only=True):
    """The answer to what a node's agent asked of a pod (METRICS, `pressure.<node>`).

    `number` to `message` repeat the ask. `state` is `granted` (it leaves, or is about to) or `refused`; `reason` says
    why not: slo-manager's word, that of a disruption budget, or of a policy. `revision` is that of the request to
    evict, which the pod's note repeats; `at` is unix seconds of slo-manager's clock.
    """

    number: Integer
    need: str
    feature: str
    accumulator: str
    state: str
    release: dict[str, Integer] = {}
    counts: dict[str, Integer] = {}
    reason: str = ""
    message: str = ""
    at: float = 0.0
    revision: Integer = 0


class ContainerSize(Part, frozen=True, kw_only=True):
    """Requests and limits of one container of several: thousandths of a core, bytes, by resource."""

    name: str
    requests: dict[str, Integer] = {}
    limits: dict[str, Integer] = {}


class NodePod(Message, frozen=True, kw_only=True, tag="nodepod.set.v1"):
    """A pod that is on a node and has not ended, for the node's agent; where that is Berth's own.

    `requests` and `limits` are those of the pod as a whole. `containers` are there where there are several and their
    sizes are known. `labels` and `annotations` are those that an agent heeds. `priority` None: the pod has none.
    `priority_class` is the protocol's, `workload` the owner, `Kind/namespace/name`, empty without one. `left` is when
    the pod was gone, unix seconds, 0 while it is there: what was evicted for the node's sake stays for an hour, as the
    record of why. `low_oom_scores`: its namespace lets it have OOM scores below those that kubelet gives. `volumes` is
    there where it limits the disks of its volumes: how kubelet calls the folder of each, by the pod's name for it.
    """

    node: str
    uid: str
    namespace: str
    name: str
    kube_qos: str = ""
    priority: Integer | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    requests: dict[str, Integer] = {}
    limits: dict[str, Integer] = {}
    containers: list[ContainerSize] = []
    created: str = ""
    deleting: bool = False
    phase: str = ""
    priority_class: str = ""
    workload: str = ""
    eviction: PodEviction | None = None
    left: float = 0.0
    low_oom_scores: bool = False
    volumes: dict[str, str] = {}
