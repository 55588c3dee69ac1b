"""Everything that a constraint says of a node agrees: mask, one row, exact check, reasons, and the verifier's own law.

The tests go through the registry. What a new constraint needs here is a row of `WAITING` that makes pods which it
concerns, and, where it reads something new of nodes, a row of `NODES`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from berth.contracts import names, subjects
from berth.contracts.grants import device, function
from berth.contracts.inventory import CardPartition
from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from berth.contracts.ledger import Grant
from berth.contracts.metrics import PodUsage, Usage, UsageWindow
from berth.contracts.state import (
    CSINode,
    CSINodeDriver,
    Device,
    HostPort,
    PersistentVolume,
    PersistentVolumeClaim,
    Reservation,
    StorageClass,
    Synced,
    VolumeUse,
)
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.constraints.device_share import UNCOUNTED
from berth.placement_solver.core.devices import NoCapacity, slots_of_inventory
from berth.placement_solver.core.devices.asked import DeviceQuery
from berth.placement_solver.core.devices.node_rules import node_rules
from berth.placement_solver.core.devices.record import all_grants
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.seams import (
    Allocator,
    Choice,
    Constraint,
    Depends,
    Freeable,
    Hypothesis,
    Rejection,
    Target,
)
from berth.placement_solver.core.solve import Trial
from berth.placement_solver.core.tallies.granted import grant_tallies
from berth.placement_solver.core.verify.grants import LAWS as GRANT_LAWS
from berth.placement_solver.core.verify.grants import Place, capacity
from berth.placement_solver.core.volumes import KINDS
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.node import NodeDevices
from berth.rules.gpu_request import WHOLE_CARDS
from berth.rules.ports import write_port
from berth.rules.records import registry
from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config
from berth.rules.taints import UNSCHEDULABLE_TAINT
from berth.rules.times import text_of
from berth.testing.builders import GI, PodBuilder, gpu_grant, gpu_slots, nic_slots, node_topology, pod, with_places
from berth.transaction.claims import Claim


def configuration_with(parts: dict[str, Any]) -> SchedulerConfig:
    """A configuration with one profile, for our scheduler name."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = [{"schedulerName": names.SCHEDULER_NAME, **parts}]
    found = read_scheduler_config(json.dumps({**head, "profiles": profiles}))
    assert isinstance(found, SchedulerConfig)
    return found


DOCS: Final = Path(__file__).parents[4] / "docs/placement-rules.md"
LOAD_ARGS: Final = {
    "usageThresholds": {"cpu": 60},
    "prodUsageThresholds": {"cpu": 40},
    "aggregated": {"usageThresholds": {"memory": 50}, "usageAggregationType": "p95", "usageAggregatedDuration": "5m"},
    "allowCustomizeEstimation": True,
}
NOW_S: Final = 1_000_000.0
UNSHARED: Final = {"gpuShareUnsupportedModels": [{"vendor": "nvidia", "model": "B"}]}
OPTIONAL: Final = configuration_with(
    {
        "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}},
        "pluginConfig": [
            {"name": "LoadAwareScheduling", "args": LOAD_ARGS},
            {"name": "DeviceShare", "args": UNSHARED},
        ],
    }
)
"""A profile with the constraints that no default has; read once, for thousands of worlds."""
VIEW = ClusterView([names.SCHEDULER_NAME], "s")
VIEW.configuration.on_use(OPTIONAL)
REGISTRY = VIEW.profiles.of(names.SCHEDULER_NAME)
CONSTRAINTS: Final = [constraint.name for constraint in (*REGISTRY.of_class, *REGISTRY.of_pod)]
ROWS = ("n0", "n1", "n2")


@dataclass
class Asking:
    """Who waits, in the making: a pod, or a Reservation that names its node."""

    builder: PodBuilder
    required_node: str = ""


Change = Callable[[Asking], object]


def _wants_node(asking: Asking, name: str) -> None:
    asking.required_node = name


OF_APP: Final = LabelSelector(match_labels={"app": "x"})

DEVICES: Final = (
    {names.RDMA: 1},
    {names.RDMA: 60},
    {names.RDMA: 2},
    {names.RDMA: 200},
    {names.FPGA: 100},
    {names.NVIDIA_GPU: 1},
    {names.NVIDIA_GPU: 1, names.RDMA: 1},
    {names.NVIDIA_GPU: 2, names.RDMA: 60},
    {names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50, names.RDMA: 1},
)
NOTES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {names.ANNOTATION_DEVICE_HINT: {"rdma": {"vfSelector": {}}}},
    {names.ANNOTATION_DEVICE_HINT: {"rdma": {"vfSelector": {"matchLabels": {"type": "other"}}}}},
    {names.ANNOTATION_DEVICE_HINT: {"rdma": {"selector": {"matchLabels": {"number": "1"}}}}},
    {names.ANNOTATION_DEVICE_HINT: {"rdma": {"allocateStrategy": "ApplyForAll", "vfSelector": {}}}},
    {names.ANNOTATION_DEVICE_HINT: {"rdma": {"allocateStrategy": "RequestsAsCount"}}},
    {names.ANNOTATION_DEVICE_HINT: {"gpu": {"requiredTopologyScope": "NUMANode"}}},
    {names.ANNOTATION_DEVICE_JOINT: {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}},
    {
        names.ANNOTATION_DEVICE_JOINT: {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
        names.ANNOTATION_DEVICE_HINT: {"rdma": {"vfSelector": {}}},
    },
    {names.ANNOTATION_GPU_PARTITION_SPEC: {"allocatePolicy": "Restricted"}},
)
"""What pods ask for, and say of it in annotations."""


def _asks_devices(asking: Asking, requests: dict[str, int], notes: dict[str, Any]) -> None:
    asking.builder.requests(requests)
    for name, content in notes.items():
        asking.builder.annotation(name, json.dumps(content))


def _gathered(layer: str, strategy: str) -> str:
    return json.dumps({"gatherStrategy": [{"layer": layer, "strategy": strategy}]})


WAITING: dict[str, st.SearchStrategy[Change]] = {
    "NodeUnschedulable": st.sampled_from([UNSCHEDULABLE_TAINT.key, "other"]).map(
        lambda key: lambda asking: asking.builder.template(tolerations=[Toleration(key=key, operator="Exists")])
    ),
    "NodeName": st.sampled_from([*ROWS, "nowhere"]).map(lambda name: lambda asking: _wants_node(asking, name)),
    "TaintToleration": st.sampled_from(["own", "other"]).map(lambda key: lambda asking: asking.builder.tolerates(key)),
    "NodeAffinity": st.sampled_from(["a", "b", ""]).map(
        lambda zone: lambda asking: asking.builder.only_on("zone", zone)
    ),
    "QuotaTree": st.sampled_from(["pooled", "scattered", "nowhere"]).map(
        lambda quota: lambda asking: asking.builder.label(names.LABEL_QUOTA_NAME, quota)
    ),
    "NodePorts": st.builds(HostPort, port=st.sampled_from([80, 81]), host_ip=st.sampled_from(["", "10.0.0.1"])).map(
        lambda port: lambda asking: asking.builder.template(host_ports=[port])
    ),
    "NodeResourcesFit": st.dictionaries(
        st.sampled_from([names.CPU, names.MEMORY, "example.com/thing"]), st.integers(0, 4).map(lambda n: n * 1000)
    ).map(lambda amounts: lambda asking: asking.builder.requests(amounts)),
    "LoadAwareScheduling": st.builds(
        lambda priority, limit, factor: (
            lambda asking: asking.builder.template(
                priority=priority, limits={names.CPU: limit}, kube_qos="Burstable"
            ).annotation(names.ANNOTATION_ESTIMATED_FACTORS, f'{{"cpu": {factor}, "memory": 0}}')
        ),
        st.sampled_from([9500, 5500, 0]),
        st.sampled_from([0, 1000, 2000]),
        st.sampled_from([0, 50, 100]),
    ),
    "NodeNUMAResource": st.builds(
        lambda qos, cpu, spec, policy: (
            lambda asking: (
                asking.builder.requests(cpu=1000 * cpu, memory=cpu * GI)
                .label(names.LABEL_QOS, qos)
                .annotation(names.ANNOTATION_RESOURCE_SPEC, spec)
                .annotation(names.ANNOTATION_NUMA_SPEC, policy)
            )
        ),
        st.sampled_from(["LSR", "LSE", "LSR", "LS"]),
        st.integers(1, 3),
        st.sampled_from(
            ["", *(f'{{"requiredCPUBindPolicy":"{policy}"}}' for policy in ("FullPCPUs", "SpreadByPCPUs"))]
        ),
        st.sampled_from(
            ["", *(f'{{"numaTopologyPolicy":"{policy}"}}' for policy in ("SingleNUMANode", "Restricted", "BestEffort"))]
        ),
    ),
    "DeviceShare": st.one_of(
        st.sampled_from([10, 60, 100]).map(lambda part: lambda asking: asking.builder.share(part)),
        st.integers(1, 2).map(lambda count: lambda asking: asking.builder.gpus(count)),
        st.tuples(st.sampled_from(DEVICES), st.sampled_from(NOTES)).map(
            lambda asked: lambda asking: _asks_devices(asking, *asked)
        ),
    ),
    "GPUSharing": st.builds(
        lambda part, provider: lambda asking: asking.builder.share(part).label(names.LABEL_GPU_ISOLATION, provider),
        st.sampled_from([10, 60, 100]),
        st.sampled_from(["", "hami-core", "HAMi-core"]),
    ),
    "PodTopologySpread": st.builds(
        lambda key, own: (
            lambda asking: asking.builder.label("app", own).template(
                topology_spread=[
                    TopologySpreadConstraint(
                        topology_key=key, max_skew=1, when_unsatisfiable="DoNotSchedule", label_selector=OF_APP
                    )
                ]
            )
        ),
        st.sampled_from(["zone", "missing"]),
        st.sampled_from(["x", "y"]),
    ),
    "NetworkTopology": st.sampled_from([("rack", "MustGather"), ("NodeTopologyLayer", "MustGather"), None]).map(
        lambda rule: (
            lambda asking: asking.builder.gang(
                "g", 1, network_topology_spec=_gathered(*rule) if rule else _gathered("rack", "PreferGather")
            ).template(scheduler=names.SCHEDULER_NAME)
        )
    ),
    "InterPodAffinity": st.builds(
        lambda field, key, own: (
            lambda asking: asking.builder.label("app", own).template(
                affinity=Affinity(
                    **{
                        field: PodAffinity(
                            required_during_scheduling_ignored_during_execution=[
                                PodAffinityTerm(topology_key=key, label_selector=OF_APP)
                            ]
                        )
                    }
                )
            )
        ),
        st.sampled_from(["pod_affinity", "pod_anti_affinity"]),
        st.sampled_from(["zone", "missing"]),
        st.sampled_from(["x", "y"]),
    ),
    **{
        name: st.lists(uses, min_size=1, max_size=2).map(
            lambda volumes: lambda asking: asking.builder.template(volumes=volumes)
        )
        for name, uses in {
            "VolumeRestrictions": st.sampled_from(
                [
                    VolumeUse(source="gcePersistentDisk", disk=["d"]),
                    VolumeUse(source="iscsi", disk=["q"], read_only=True),
                    VolumeUse(source="persistentVolumeClaim", claim="one-pod"),
                ]
            ),
            "VolumeZone": st.just(VolumeUse(source="persistentVolumeClaim", claim="zoned")),
            **dict.fromkeys(
                ("NodeVolumeLimits", "VolumeBinding"),
                st.sampled_from(["here", "kept", "fresh", "zoned", "late"]).map(
                    lambda claim: VolumeUse(source="persistentVolumeClaim", claim=claim)
                ),
            ),
        }.items()
    },
}
"""Changes to who waits, by the name of the constraint that they concern."""

HELD: Final[tuple[list[Grant] | None, ...]] = (
    None,
    None,
    [gpu_grant(0, 60)],
    [gpu_grant(1, 60)],
    [gpu_grant(0), device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.1", "rdma", 0)],
    [device("rdma", 1, {names.RDMA: 1}), function("0000:01:00.1", "rdma", 1)],
    [device("rdma", 0, {names.RDMA: 60})],
)
"""What is noted on pods that are there."""
TABLES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    {"partition_policy": "Prefer", "partitions": [CardPartition(minors=[0, 1], score=1)]},
    {"partition_policy": "Honor", "partitions": [CardPartition(minors=[1], score=1), CardPartition(minors=[0])]},
)
"""What INVENTORY says of partitions."""

NODES: dict[str, st.SearchStrategy[Any]] = {
    "cpu": st.sampled_from([1000, 4000]),
    "memory": st.sampled_from([2000, 4 * GI]),
    "pods": st.sampled_from([1, 2, 110]),
    "extended": st.sampled_from(
        [
            *([{}] * 4),
            {"example.com/thing": 3000},
            {names.NVIDIA_GPU: 0},
            {names.NVIDIA_GPU: 1},
            {names.NVIDIA_GPU: 2},
            {names.RDMA: 0},
        ]
    ),
    "labels": st.builds(
        lambda zone, told, partitions, cores, cards: {
            "zone": zone,
            **({told: zone} if told else {}),
            **partitions,
            **cores,
            **cards,
        },
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "topology.kubernetes.io/zone"]),
        st.sampled_from([{}, {}, {names.LABEL_GPU_PARTITION_POLICY: "Honor"}]),
        st.sampled_from(
            [
                *([{}] * 6),
                {names.LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"},
                {names.LABEL_NUMA_POLICY: "SingleNUMANode"},
                {names.LABEL_NUMA_POLICY: "BestEffort"},
            ]
        ),
        st.sampled_from(
            [
                {names.LABEL_GPU_ISOLATION: "HAMi-core", names.LABEL_GPU_VENDOR: "nvidia", names.LABEL_GPU_MODEL: "A"},
                {names.LABEL_GPU_VENDOR: "nvidia", names.LABEL_GPU_MODEL: "B"},
                {},
            ]
        ),
    ),
    "taints": st.sampled_from(
        [[], [], [Taint(key="own", effect="NoSchedule")], [Taint(key="own", effect="NoExecute")]]
    ),
    "unschedulable": st.sampled_from([False, False, True]),
}
"""Fields of nodes."""


POOLS: Final = {
    "pooled": [Requirement(key="zone", operator="In", values=["a"])],
    "scattered": [],
    "nowhere": [Requirement(key="zone", operator="Near", values=["a"])],
}
"""What QUOTA says of the nodes of each group's tree; what cannot be understood is no node."""

THRESHOLDS: Final = (
    "",
    '{"usageThresholds": {"example.com/thing": 50}}',
    '{"prodUsageThresholds": {"cpu": 0}, "aggregatedUsage": {"usageThresholds": {"cpu": 50}, '
    '"usageAggregationType": "p95"}}',
    "not JSON",
)


def _load(draw: st.DrawFn, run: Any, node: str) -> None:
    """What a node says that it uses: nothing, in METRICS, or in a NodeMetric."""
    kind = draw(st.sampled_from(["none", "metrics", "metrics", "nodemetric"]))
    cpu, memory = draw(st.sampled_from([0, 500, 1500, 2400])), draw(st.sampled_from([0, GI, 3 * GI]))
    age_s = draw(st.sampled_from([0.0, 30.0, 200.0]))
    usage = Usage(cpu_milli=cpu, memory_bytes=memory)
    windows = [UsageWindow(duration_s=300, p95=usage)] if draw(st.booleans()) else []
    used = {f"uid-default-holder-{at}": draw(st.sampled_from([0, 100, 900])) for at in range(2)}
    if kind == "metrics":
        pods = [PodUsage(uid=uid, qos="burstable", usage=Usage(cpu_milli=each)) for uid, each in used.items()]
        run.uses(node, NOW_S - age_s, cpu=cpu, memory=memory, system_usage=usage, windows=windows, pods=pods)
    elif kind == "nodemetric":
        resources = {"resources": {"cpu": f"{cpu}m", "memory": str(memory), "example.com/thing": "2"}}
        priority = draw(st.sampled_from(["koord-prod", "koord-batch"]))
        pods_metric = [
            {
                "namespace": "default",
                "name": uid.removeprefix("uid-default-"),
                "priority": priority,
                "podUsage": {"resources": {"cpu": f"{each}m"}},
            }
            for uid, each in used.items()
        ]
        node_metric = {"nodeUsage": resources, "systemUsage": resources}
        if windows:
            node_metric["aggregatedNodeUsages"] = [{"duration": "10m", "usage": {"p95": resources}}]
        run.reports(node, {"updateTime": text_of(NOW_S - age_s), "nodeMetric": node_metric, "podsMetric": pods_metric})


RECORDS: Final = st.sampled_from(
    ["", "", "{", '{"cpuset":"0"}', '{"cpuset":"0-1"}', '{"numaNodeResources":[{"node":1,"resources":{"cpu":"1"}}]}']
)
"""What a holder was given of CPUs and NUMA nodes."""
TOPOLOGIES: Final = st.one_of(
    st.none(),
    st.builds(
        lambda zones, cpu_manager, reserved: node_topology(
            zones=zones, cores=2, reserved=reserved, cpu_manager=cpu_manager, memory=3 * GI
        ),
        st.integers(1, 2),
        st.sampled_from(["", "", "static"]),
        st.sampled_from([(), (1,)]),
    ),
)
"""Where the CPUs of a node lie; None: nobody says so."""


def _storage(run: Any, limits: list[int | None]) -> None:
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


class World(NamedTuple):
    """A view with one candidate."""

    run: Any
    candidate: Candidate

    def rejections(self, row: int) -> dict[str, Rejection]:
        """What the exact checks say against a node, by constraint."""
        found = {
            constraint.name: constraint.filter(query, Target(row))
            for constraint, query in (*self.candidate.cls.asked, *self.candidate.asked)
        }
        return {name: rejection for name, rejection in found.items() if rejection is not None}

    def rows(self) -> list[int]:
        """The nodes that are there."""
        return np.flatnonzero(self.run.cluster.nodes.alive).tolist()

    def claims(self, row: int) -> list[Claim]:
        """The candidate on a node, with every choice of devices that would serve it if nobody held any."""
        nodes, cls = self.run.cluster.nodes, self.candidate.cls
        choices: list[tuple[Grant, ...]] = [()]
        queries = [query for _, query in cls.chosen if isinstance(query, DeviceQuery)]
        if queries and nodes.inventories[row] is not None:
            rules = node_rules(nodes.states[row], nodes.inventories[row]).partitions
            slots = [(kind, slot) for kind, each in slots_of_inventory(nodes.inventories[row]).items() for slot in each]
            for size in range(1, len(slots) + 1):
                for some in combinations(slots, size):
                    by_kind = {kind: [slot for other, slot in some if other == kind] for kind, _ in some}
                    found = choose_devices(NodeDevices(by_kind, rules), queries[0].request)
                    if not isinstance(found, NoCapacity):
                        choices.append(all_grants(found))
            choices = list({str(each): each for each in choices}.values())
        return [
            Claim(
                name=self.candidate.name,
                uid=self.candidate.object.uid,
                node=nodes.names[row],
                amounts=dict(cls.requests),
                grants=grants,
                ports=tuple(map(write_port, cls.template.host_ports)),
                plan="plan",
                is_reservation=self.candidate.is_reservation,
                quota="/".join(self.candidate.quota or ()),
            )
            for grants in choices
        ]


@st.composite
def worlds(
    draw: st.DrawFn, solving: type[Any], concerned: str = "", *, same_holders: bool = False, alone: bool = False
) -> World:
    """Three nodes, pods on them, and one object that waits, changed by some rows of `WAITING`.

    `same_holders`: those that are there ask for the same as well. `alone`: who waits is changed by no other row.
    """
    run = solving()
    run.cluster.configuration.on_use(OPTIONAL)
    run.cluster.loads.tell_time(NOW_S)
    names_of_changes = sorted(WAITING)
    of_holders = [each for each in names_of_changes if each != "NodeName"]
    chosen = [] if alone else draw(st.lists(st.sampled_from(names_of_changes), max_size=3, unique=True))
    asking = Asking(pod("waiting"))
    for name in dict.fromkeys([*([concerned] if concerned in WAITING else []), *chosen]):
        draw(WAITING[name])(asking)
    for name, nodes in POOLS.items():
        run.quota(name, tree=f"tree-{name}", nodes=nodes)
    for name in ROWS:
        fields = draw(st.fixed_dictionaries(NODES))
        if asking.required_node:
            fields["pods"] = 110  # a Reservation takes no place of a pod, and is given none that is full
        thresholds = draw(st.sampled_from(THRESHOLDS))
        run.node(name, annotations={names.ANNOTATION_USAGE_THRESHOLDS: thresholds} if thresholds else {}, **fields)
        _load(draw, run, name)
        topology = draw(TOPOLOGIES)
        if topology is not None:
            run.topology(name, topology)
        devices = draw(st.sampled_from(["none", "counted", "counted", "uncounted"]))
        if devices == "counted":
            cards = gpu_slots(2, unhealthy=draw(st.sampled_from([(), (1,), (0, 1)])))
            interfaces = nic_slots(draw(st.integers(0, 2)), functions=draw(st.integers(0, 1)))
            run.devices(name, [*with_places(cards), *interfaces], **draw(st.sampled_from(TABLES)))
        elif devices == "uncounted":
            run.state(subjects.named_key("device", name), Device(name=name, uid=f"device-{name}", version=run.version))
    run.network("rack")
    for name, rack in zip(ROWS, draw(st.lists(st.sampled_from(["r", "s", ""]), min_size=3, max_size=3)), strict=True):
        if rack:
            run.lies(name, rack)
    for index in range(draw(st.integers(0, 4))):
        holder = Asking(pod(f"holder-{index}").template(scheduler="other"))
        draw(WAITING[concerned if same_holders else draw(st.sampled_from(of_holders))])(holder)
        devices = draw(st.sampled_from(HELD))
        holder.builder.set(scheduled=draw(st.sampled_from(["", text_of(NOW_S - 20), text_of(NOW_S - 10**5)])))
        holder.builder.annotation(names.ANNOTATION_RESOURCE_STATUS, draw(RECORDS))
        run.pod(holder.builder.on(draw(st.sampled_from(ROWS)), devices))
    _storage(run, draw(st.lists(st.sampled_from([None, 0, 1]), min_size=3, max_size=3)))
    if asking.required_node:
        template = asking.builder.build(1).template
        run.reservation(
            Reservation(name="r", uid="uid-r", version=1, template=template, required_node=asking.required_node)
        )
    else:
        run.pod(asking.builder)
    units, _ = run.cluster.batch(10)
    ((candidate,),) = [unit.candidates for unit in units]
    return World(run, candidate)


MAY_GRANT_NOTHING: Final = {"NodeNUMAResource"}
"""Their query says what a node may give to a pod, and not every node does."""
SEARCH: Final = settings(
    max_examples=6000, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
LAWS: Final = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LAWS
@given(data=st.data())
def test_what_is_said_of_a_node_agrees(solving: type[Any], data: st.DataObject) -> None:
    """A world takes longer to make than to judge: each of these laws judges the same ones."""
    world = data.draw(worlds(solving))
    _mask_row_check_and_reasons_agree(world)
    _who_cannot_be_helped_by_evictions_is_not(world)
    _the_verifier_takes_what_all_constraints_take_and_nothing_else(world)


def _mask_row_check_and_reasons_agree(world: World) -> None:
    rows = np.array(world.rows(), np.intp)
    for constraint, query in (*world.candidate.cls.asked, *world.candidate.asked):
        whole = constraint.mask(query, slice(0, len(world.run.cluster.nodes)))
        assert np.array_equal(constraint.mask(query, rows), whole[rows]), constraint.name
        told = constraint.rejections(query, rows)
        for place, row in enumerate(rows.tolist()):
            said = bool(whole[row])
            found = constraint.filter(query, Target(row))
            assert constraint.admits(query, row) == said, constraint.name
            if said and not constraint.exact:
                continue
            assert (found is None) == said, constraint.name
            because = [each for each in told if each.rows[place]]
            assert {each.reason for each in because} == set(found.reasons if found else ()), constraint.name
            if found is not None:
                assert all(each.resolvable for each in because) == found.resolvable, constraint.name


def _who_cannot_be_helped_by_evictions_is_not(world: World) -> None:
    nodes = world.run.cluster.nodes
    for row in world.rows():
        everybody = Hypothesis(gone=tuple(world.run.cluster.book.claims_on(nodes.names[row])))
        for constraint, query in (*world.candidate.cls.asked, *world.candidate.asked):
            found = constraint.filter(query, Target(row))
            if found is not None and not found.resolvable:
                assert constraint.filter(query, Target(row, everybody)) is not None, constraint.name


def _the_verifier_takes_what_all_constraints_take_and_nothing_else(world: World) -> None:
    cluster, candidate = world.run.cluster, world.candidate
    refused = bool(candidate.refusals or candidate.cls.refusals)
    for row in world.rows():
        trial = Trial(cluster.capacity)
        placement = cluster.solver.place_on(candidate, row, trial, "plan")
        trial.undo()
        rejections = world.rejections(row)
        assert (placement is not None) == (not rejections and not refused)
        if placement is not None:
            assert world.run.verifier.check([placement.claim]) == []
        else:
            # That a Device waits to be counted is prudence alone where kubelet counts the cards, and none is chosen.
            waits = {reason for each in rejections.values() for reason in each.reasons} == {UNCOUNTED}
            claims = [claim for claim in world.claims(row) if not (waits and WHOLE_CARDS & claim.amounts.keys())]
            assert all(world.run.verifier.check([claim]) for claim in claims), rejections


@LAWS
@given(data=st.data())
def test_what_a_constraint_takes_its_allocator_serves_under_any_hypothesis(
    solving: type[Any], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([each.constraint for each in REGISTRY.allocators]))
    world = data.draw(worlds(solving, name, same_holders=True))
    nodes, cls = world.run.cluster.nodes, world.candidate.cls
    asked = {constraint.name: constraint for constraint, _ in cls.asked}
    for row in world.rows():
        there = list(world.run.cluster.book.claims_on(nodes.names[row]))
        gone = tuple(each for each in there if data.draw(st.booleans()))
        target = Target(row, Hypothesis(gone=gone))
        staying = [each for each in there if each not in gone]
        for allocator, query in cls.chosen:
            found = allocator.choose(query, target)
            if asked[allocator.constraint].filter(query, target) is None:
                assert not isinstance(found, Rejection), allocator.constraint
                by_number = names.NVIDIA_GPU in nodes.states[row].allocatable and names.NVIDIA_GPU in cls.requests
                assert found.grants or allocator.constraint in MAY_GRANT_NOTHING or by_number
                _judge_grants(world, row, found.grants, staying)


def _judge_grants(world: World, row: int, grants: tuple[Grant, ...], staying: list[Claim]) -> None:
    """Each thing once, and no more of it than there is beside those who stay."""
    nodes = world.run.cluster.nodes
    assert len({(each.kind, each.id) for each in grants}) == len(grants)
    offered = capacity(Place(nodes.states[row], nodes.inventories[row], nodes.topologies[row]))
    for grant in grants:
        for name, amount in grant.amounts.items():
            held = sum(
                each.amounts.get(name, 0)
                for claim in staying
                for each in claim.grants
                if (each.kind, each.id) == (grant.kind, grant.id)
            )
            if (grant.kind, grant.id, name) in offered:
                assert held + amount <= offered[grant.kind, grant.id, name]


@pytest.mark.parametrize("allocator", REGISTRY.allocators, ids=lambda each: each.constraint)
def test_what_an_allocator_grants_has_a_record_a_law_and_a_tally(solving: type[Any], allocator: Allocator[Any]) -> None:
    assert allocator.constraint in CONSTRAINTS
    grants: list[Grant] = []

    def grants_something(world: World) -> bool:
        for row in world.rows():
            for each, query in world.candidate.cls.chosen:
                found = each.choose(query, Target(row)) if each.constraint == allocator.constraint else Choice()
                grants.extend(() if isinstance(found, Rejection) else found.grants)
        return bool(grants)

    find(_worlds_about(solving, allocator.constraint), grants_something, settings=SEARCH, random=random.Random(1))
    tallied = {each.name for each in grant_tallies(VIEW.nodes)}
    for kind in {grant.kind for grant in grants}:
        records = [each for each in registry.GRANTS if kind in each.kinds]
        assert len(records) == 1, f"{kind}: no record in berth.rules.records"
        assert records[0].name in tallied, f"{kind}: no tally of {records[0].name} in core.tallies.granted"
        assert any(kind in law.kinds for law in GRANT_LAWS), f"{kind}: no law in core.verify.grants"


OF_CAPACITY: Final = [each for each in REGISTRY.of_class if Depends.CAPACITY in each.depends]


@pytest.mark.parametrize("constraint", OF_CAPACITY, ids=lambda each: each.name)
def test_each_constraint_of_capacity_can_say_what_has_to_become_free(constraint: Constraint[Any]) -> None:
    assert isinstance(constraint, Freeable)


@LAWS
@given(data=st.data())
def test_nothing_has_to_become_free_where_a_pod_is_taken(solving: type[Any], data: st.DataObject) -> None:
    world = data.draw(worlds(solving, data.draw(st.sampled_from([each.name for each in OF_CAPACITY]))))
    for constraint, query in world.candidate.cls.by_capacity:
        assert isinstance(constraint, Freeable)
        for row in world.rows():
            lacking = constraint.lacking(query, row, 1)
            distance = constraint.distance(query, np.array([row], np.intp), np.array([1], np.intp))
            if constraint.filter(query, Target(row)) is None:
                assert lacking is not None
                assert not lacking.amounts
                assert not lacking.things
                assert distance == [0.0]
            elif lacking is None:
                continue
            elif not lacking.amounts and not lacking.things:
                found = constraint.rejections(query, np.array([row], np.intp))
                assert any(each.repair for each in found if each.rows[0]), f"{constraint.name}: nothing would help"


def _worlds_about(solving: type[Any], name: str) -> st.SearchStrategy[World]:
    """Mostly those in which it matters, and any other."""
    most = [worlds(solving, name, same_holders=same, alone=True) for same in (True, False)]
    return st.one_of(*most, worlds(solving, name))


def _ruled_out_by_it_alone(name: str) -> Callable[[World], bool]:
    def holds(world: World) -> bool:
        by_node = any(list(world.rejections(row)) == [name] for row in world.rows())
        return by_node and not world.candidate.refusals and not world.candidate.cls.refusals

    return holds


def _rows_of_docs() -> dict[str, list[str]]:
    """Cells of the table, by the name in the first of them."""
    text = DOCS.read_text() if DOCS.exists() else ""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): row for row in cells}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_each_constraint_has_pods_a_law_reasons_and_a_row_in_the_docs(solving: type[Any], name: str) -> None:
    assert name in WAITING, f"{name}: no row of WAITING makes pods that it concerns"
    row_of_docs = _rows_of_docs().get(name)
    assert row_of_docs is not None, f"{name}: no row in {DOCS.name}"
    assert len(row_of_docs) == 6, f"{name}: its row in {DOCS.name} needs six cells"
    assert all(row_of_docs), f"{name}: an empty cell in {DOCS.name}"
    try:
        world = find(
            _worlds_about(solving, name), _ruled_out_by_it_alone(name), settings=SEARCH, random=random.Random(1)
        )
    except NoSuchExample:
        pytest.fail(f"{name}: rules out no node alone, in any world of WAITING and NODES")
    texts = [re.escape(text).replace("NAME", ".+") for text in re.findall(r"`([^`]+)`", row_of_docs[2])]
    for row in world.rows():
        rejection = world.rejections(row).get(name)
        if rejection is None:
            continue
        assert rejection.reasons, f"{name}: rejects a node without a reason"
        for reason in rejection.reasons:
            assert any(re.fullmatch(text, reason) for text in texts), f"{name}: {reason!r} is not in {DOCS.name}"
        if list(world.rejections(row)) == [name]:
            for claim in world.claims(row):
                assert world.run.verifier.check([claim]), f"{name}: no law in core/verify, {claim} is taken"


def test_the_docs_name_no_constraint_that_is_not_there() -> None:
    assert set(_rows_of_docs()) == set(CONSTRAINTS)
