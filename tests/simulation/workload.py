"""What there is at the beginning of a run, drawn from its seed, and what can be done to it: plain data.

A small cluster, so that capacity is scarce: nodes with a few GPUs, and quota groups that compete.
"""

from __future__ import annotations

import json
import random
import string
from typing import Any, Final, NamedTuple

from berth.contracts.slo import CONFIG_MAP
from berth.simcluster.generate.build import device_manifest, node_manifest

Json = dict[str, Any]

HOME: Final = CONFIG_MAP.partition("/")[0]
NAMESPACE: Final = "team"
MODEL: Final = "T4"
GANG_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
OWNER_LABEL: Final = "app"
QUOTA_LABEL: Final = "quota.scheduling.koordinator.sh/name"
STRATEGY: Final = "resource-threshold-config"
ABOVE: Final = "above"
PARENT: Final = "together"
APART: Final = "apart"
"""A group beside that parent, below which another may come to be."""
GROUPS: Final = ("a", "b", "c")
CARDS: Final = "koordinator.sh/gpu-core"
MIDDLING: Final = 0.4
CPU_MILLI: Final = 16_000
MEMORY_MIB: Final = 65_536
ZONE: Final = "topology.kubernetes.io/zone"
SPINE: Final = "network.topology.nvidia.com/spine"
BLOCK: Final = "network.topology.nvidia.com/block"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
PRIORITIES: Final = {"low": -10, "high": 1_000, "higher": 2_000}
"""Priority classes; a pod without one has the priority 0."""
PROTECTED: Final = (
    ("quota.scheduling.koordinator.sh/preemptible", "false"),
    ("scheduling.koordinator.sh/disable-preemptible", "true"),
)
"""Labels of pods that must not be evicted for others."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that a kubelet has made of a file of its own."""
WATCHED_NODE: Final = "node-0"
"""The node that has an agent, in runs with one."""


class Create(NamedTuple):
    """Make an object."""

    manifest: Json


class Put(NamedTuple):
    """Make an object, or give it this content when it is there."""

    manifest: Json


class Delete(NamedTuple):
    """Delete an object; `grace_s` 0 is by force."""

    kind: str
    name: str
    grace_s: int = 30


class Change(NamedTuple):
    """Merge this into an object."""

    kind: str
    name: str
    patch: Json
    part: str = ""
    """Its status, say."""


class Scale(NamedTuple):
    """Let a quota group have such a share of the min and max that it had at the beginning."""

    group: str
    share: float


class Place(NamedTuple):
    """Put a pod on the node that it names, as another scheduler does: if there is capacity beside those that are
    bound."""

    manifest: Json


Action = Create | Put | Delete | Change | Scale | Place


class Timed(NamedTuple):
    """An action and its time in virtual seconds."""

    at_s: float
    action: Action


class Size(NamedTuple):
    """How much happens. `mates`: groups of pods that must be apart, together or spread. `claims`: those that pods use
    volumes by. `sets`: ReplicaSets, and as many pods behind gates. `ranked`: the share of single pods that are of
    another priority than all others, `ranked_gangs` that of gangs. `end_s`: nothing is created after it."""

    nodes: int = 8
    singles: int = 90
    gangs: int = 6
    reservations: int = 4
    strangers: int = 8
    mates: int = 6
    claims: int = 6
    sets: int = 2
    ranked: float = 0.0
    ranked_gangs: float = 0.0
    end_s: float = 220.0


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """What is there at the beginning: namespace, quota groups, nodes and their devices."""
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    made += [priority_class(name, value) for name, value in PRIORITIES.items()]
    made += _quotas(rng, size)
    for number in range(size.nodes):
        made += node(f"node-{number}", rng.choice((2, 4, 8)), number)
    return made


def priority_class(name: str, value: int) -> Json:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def node(name: str, gpus: int, number: int = 0) -> list[Json]:
    """A Node and its Device."""
    zone = ZONES[number % len(ZONES)]
    plain = node_manifest(name, cpu_milli=CPU_MILLI, memory_mib=MEMORY_MIB, model=MODEL, zone=zone, index=number)
    plain["metadata"]["labels"] |= place(number)
    return [plain, device_manifest(name, MODEL, gpus)]


def place(number: int) -> dict[str, str]:
    """Where a node lies in the network: two to a block, two blocks to a spine."""
    return {SPINE: f"s{number // 4}", BLOCK: f"b{number // 2}"}


def _quotas(rng: random.Random, size: Size) -> list[Json]:
    """A parent with a part of the cluster; leaves that may use more than their min, together more than the parent.

    Where that part is a middling one, the parent says nothing of cards, and a group above it does.
    """
    share = rng.choice((0.15, MIDDLING, 1.0))
    cpu, gpus = int(size.nodes * CPU_MILLI * share), int(size.nodes * 400 * share)
    total = {
        "cpu": f"{cpu}m",
        "memory": f"{int(size.nodes * MEMORY_MIB * share)}Mi",
        CARDS: f"{gpus}",
    }
    made = [_quota(PARENT, "", total, total)]
    if share == MIDDLING:
        plain = {name: amount for name, amount in total.items() if name != CARDS}
        most = {**plain, CARDS: f"{gpus // 2}"}
        made = [_quota(ABOVE, "", most, most), _quota(PARENT, ABOVE, plain, plain)]
    made.append(_quota(APART, "", part_of(total, 0.3), part_of(total, 0.3)))
    for group in GROUPS:
        least, most = rng.uniform(0.05, 0.2), rng.uniform(0.2, 0.6)
        made.append(_quota(group, PARENT, part_of(total, least), part_of(total, most)))
    return made


def part_of(total: dict[str, str], share: float) -> dict[str, str]:
    """Whole numbers of each amount's own unit."""
    parts = {}
    for name, text in total.items():
        number = text.rstrip(string.ascii_letters)
        parts[name] = f"{int(int(number) * share)}{text.removeprefix(number)}"
    return parts


def _quota(name: str, parent: str, least: dict[str, str], most: dict[str, str]) -> Json:
    labels = {"quota.scheduling.koordinator.sh/is-parent": json.dumps(not parent or name == PARENT)}
    if parent:
        labels["quota.scheduling.koordinator.sh/parent"] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"min": least, "max": most},
    }


def strategy_manifest(*, enable: bool, percent: int, policy: str = "cfsQuota") -> Json:
    """The ConfigMap that says what best-effort pods may use of a node."""
    strategy = {"enable": enable, "cpuSuppressThresholdPercent": percent, "cpuSuppressPolicy": policy}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP.partition("/")[2], "namespace": HOME},
        "data": {STRATEGY: json.dumps({"clusterStrategy": strategy})},
    }
