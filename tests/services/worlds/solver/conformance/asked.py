"""What may be asked for: changes to who waits, by the name of the constraint that they concern."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st
from tests.services.worlds.solver.conformance.nodes import ROWS

from berth.contracts import names
from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from berth.contracts.state import HostPort, VolumeUse
from berth.rules.taints import UNSCHEDULABLE_TAINT
from berth.testing.builders import GI, PodBuilder


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
