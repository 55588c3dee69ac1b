"""From a look at the machine, and what is known of the node and its pods, to the snapshot that strategies decide by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from zlib import crc32

from berth.contracts.slo import NodePod
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.best_effort import capacity_milli
from berth.node_qos_enforcer.core.cgroup_paths import pod_dir, qos_dir
from berth.node_qos_enforcer.core.inside.running import PodNow
from berth.node_qos_enforcer.core.measure import Cores
from berth.node_qos_enforcer.core.pods import Found, Pods
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategies.seam import Node, Snapshot, Usage
from berth.node_qos_enforcer.executor.undoing import groups_below
from berth.node_qos_enforcer.files import FileTree, Unreadable
from berth.node_qos_enforcer.views import KnownNode

LIST_ROUNDS: Final = 10
"""The groups below that of a pod of which nothing is news are listed once in so many looks."""


class GroupsBelow:
    """The groups below those of pods, as they were listed last, and the pods that were put together."""

    def __init__(self) -> None:
        """Nothing was listed."""
        self.pods = Pods()
        self._known: dict[str, tuple[PodNow, tuple[str, ...]]] = {}
        self._looks = 0

    def begin(self, uids: Iterable[str]) -> None:
        """A look begins; of other pods nothing is kept."""
        self._looks += 1
        for gone in self._known.keys() - set(uids):
            del self._known[gone]

    def of(self, tree: FileTree, path: str, uid: str, now: PodNow) -> tuple[str, ...]:
        """Their names, listed anew while there is not one for each container and the sandbox. Blocking."""
        known = self._known.get(uid)
        is_turn = crc32(uid.encode()) % LIST_ROUNDS == self._looks % LIST_ROUNDS
        if known is None or is_turn or known[0] != now or len(known[1]) <= len(now.containers):
            known = self._known[uid] = (now, tuple(tree.directories(path)))
        return known[1]


def snapshot_of(
    tree: FileTree,
    sample: NodeSample,
    used: Cores,
    known: KnownNode,
    runtime: Mapping[str, PodNow],
    told: Mapping[str, NodePod],
    now_s: float,
    groups: GroupsBelow,
    layout: cgroups.Layout,
) -> Snapshot:
    """Put together one look. Blocking: the folders of pods are listed.

    Args:
        tree: control groups.
        sample: the look.
        used: CPU, by this look and the one before.
        known: what the cluster says of the node.
        runtime: pods as the container runtime has them, by uid.
        told: the same as SLO has them.
        now_s: monotonic.
        groups: what was listed at the looks before.
        layout: where controllers are.
    """
    driver = sample.driver
    facts = known.facts
    node = Node(
        name=known.node,
        version=sample.cgroup_version,
        driver=driver,
        processors=tuple(known.processors),
        capacity=known.view.capacity,
        allocatable=known.view.allocatable,
        annotations=known.view.annotations,
        facts=facts,
        capacity_milli=capacity_milli(sample, facts),
        below_best_effort=_below(tree, layout, driver and qos_dir(driver, "BestEffort")),
        bandwidth=sample.best_effort.bandwidth,
        best_effort_cpus=sample.best_effort.cpus,
        all_cpus=sample.best_effort.all_cpus,
        cpu=known.cpu,
    )
    usage = Usage(
        node_cores=used.node,
        pod_cores=used.pods,
        node_bytes=None if sample.memory is None else sample.memory.used_bytes,
        application_cores=used.applications,
        pod_bytes={each.uid: each.group.memory_bytes for each in sample.pods if each.group.memory_bytes is not None},
    )
    if driver is None:
        return Snapshot(node, usage=usage, now_s=now_s)
    where = layout.cpu or layout.cpuacct or layout.memory
    found = []
    groups.begin(runtime)
    for each in sample.pods:
        group = pod_dir(driver, each.kube_qos, each.uid)
        # Containers are known by the runtime alone: without it nobody needs the names of their groups.
        now = runtime.get(each.uid)
        below = () if where is None or now is None else groups.of(tree, where.path(group), each.uid, now)
        found.append(Found(each.uid, each.kube_qos, below))
    return Snapshot(node, groups.pods.of(driver, found, runtime, told), usage, now_s=now_s)


def _below(tree: FileTree, layout: cgroups.Layout, top: str | None) -> tuple[str, ...]:
    """The groups below the best-effort one where each has CPUs of its own."""
    if top is None or layout.cpuset is None or layout.cpuset.version == 2:
        return ()
    try:
        return tuple(groups_below(tree, layout.cpuset, top))
    except Unreadable:
        return ()
