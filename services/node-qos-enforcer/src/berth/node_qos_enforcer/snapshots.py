"""From a look at the machine, and what is known of the node and its pods, to the snapshot that strategies decide by."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.slo import NodePod
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.best_effort import capacity_milli
from berth.node_qos_enforcer.core.cgroup_paths import pod_dir, qos_dir
from berth.node_qos_enforcer.core.inside.running import PodNow
from berth.node_qos_enforcer.core.measure import Measurement
from berth.node_qos_enforcer.core.pods import Found, pods_of
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategies.seam import Node, Snapshot, Usage
from berth.node_qos_enforcer.executor.undoing import groups_below
from berth.node_qos_enforcer.files import FileTree, Unreadable
from berth.node_qos_enforcer.views import KnownNode


def snapshot_of(
    tree: FileTree,
    sample: NodeSample,
    measured: Measurement,
    known: KnownNode,
    runtime: Mapping[str, PodNow],
    told: Mapping[str, NodePod],
    now_s: float,
) -> Snapshot:
    """Put together one look. Blocking: the folders of pods are listed.

    Args:
        tree: control groups.
        sample: the look.
        measured: what is used, by this look and the one before.
        known: what the cluster says of the node.
        runtime: pods as the container runtime has them, by uid.
        told: the same as SLO has them.
        now_s: monotonic.
    """
    layout = cgroups.detect_layout(tree)
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
        node_cores=measured.node_cores,
        pod_cores=measured.pod_cores,
        node_bytes=None if sample.memory is None else sample.memory.used_bytes,
        application_cores=measured.application_cores,
        pod_bytes={each.uid: each.group.memory_bytes for each in sample.pods if each.group.memory_bytes is not None},
    )
    if driver is None:
        return Snapshot(node, usage=usage, now_s=now_s)
    where = layout.cpu or layout.cpuacct or layout.memory
    found = []
    for each in sample.pods:
        group = pod_dir(driver, each.kube_qos, each.uid)
        # Containers are known by the runtime alone: without it nobody needs the names of their groups.
        below = tuple(tree.directories(where.path(group))) if where is not None and each.uid in runtime else ()
        found.append(Found(each.uid, each.kube_qos, below))
    return Snapshot(node, pods_of(driver, found, runtime, told), usage, now_s=now_s)


def _below(tree: FileTree, layout: cgroups.Layout, top: str | None) -> tuple[str, ...]:
    """The groups below the best-effort one where each has CPUs of its own."""
    if top is None or layout.cpuset is None or layout.cpuset.version == 2:
        return ()
    try:
        return tuple(groups_below(tree, layout.cpuset, top))
    except Unreadable:
        return ()
