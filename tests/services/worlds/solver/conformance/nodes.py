"""What nodes may be: their fields, what is counted and measured on them, and whose they are."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.inventory import CardPartition
from berth.contracts.kube import Requirement, Taint
from berth.contracts.metrics import PodUsage, Usage, UsageWindow
from berth.rules.times import text_of
from berth.testing.builders import GI, node_topology

ROWS = ("n0", "n1", "n2")
NOW_S: Final = 1_000_000.0

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
TABLES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    {"partition_policy": "Prefer", "partitions": [CardPartition(minors=[0, 1], score=1)]},
    {"partition_policy": "Honor", "partitions": [CardPartition(minors=[1], score=1), CardPartition(minors=[0])]},
)
"""What INVENTORY says of partitions."""
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


def tell_load(draw: st.DrawFn, run: Any, node: str) -> None:
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
