"""The pods of this node, from all who know something: control groups, the container runtime, what SLO says of them.

Control groups say which pods there are. Whoever is told of by others but has no group there has ended, or not begun.
Labels and annotations are the runtime's where it has reported the pod, else those of SLO; priorities, requests and
limits are those of SLO alone. Containers are the runtime's: without it, a pod is known as a whole only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import CPU, MEMORY
from berth.contracts.slo import NodePod
from berth.node_qos_enforcer.core.cgroup_paths import Driver, KubeQos, container_id_of, pod_dir
from berth.node_qos_enforcer.core.inside.running import PodNow
from berth.node_qos_enforcer.core.strategies.seam import Container, Pod
from berth.rules.cpus.qos import priority_class_or_default, qos_class


class Found(NamedTuple):
    """A pod's group: where it is, and the names of the groups below it."""

    uid: str
    kube_qos: KubeQos
    below: tuple[str, ...] = ()


class Pods:
    """The pods of one look after the other: one of which nothing is news is the very one of the look before."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._known: dict[str, tuple[Driver, Found, PodNow | None, NodePod | None, Pod]] = {}
        self._all: tuple[Pod, ...] = ()

    def of(
        self, driver: Driver, found: Iterable[Found], runtime: Mapping[str, PodNow], told: Mapping[str, NodePod]
    ) -> tuple[Pod, ...]:
        """Put together what is known, by uid."""
        before, known = self._known, dict[str, tuple[Driver, Found, PodNow | None, NodePod | None, Pod]]()
        for each in found:
            basis = (driver, each, runtime.get(each.uid), told.get(each.uid))
            kept = before.get(each.uid)
            known[each.uid] = kept if kept is not None and kept[:4] == basis else (*basis, _pod(*basis))
        self._known = known
        pods = tuple(each[4] for each in known.values())
        if len(pods) != len(self._all) or any(one is not other for one, other in zip(pods, self._all, strict=True)):
            self._all = pods
        return self._all


def _pod(driver: Driver, found: Found, now: PodNow | None, told: NodePod | None) -> Pod:
    group = pod_dir(driver, found.kube_qos, found.uid)
    if now is None and told is None:
        return Pod(found.uid, kube_qos=found.kube_qos, group=group)
    labels = now.pod.labels if now is not None else told.labels if told is not None else {}
    annotations = now.pod.annotations if now is not None else told.annotations if told is not None else {}
    priority = told.priority if told is not None else None
    pinned = now is not None and not isinstance(now.pod.status, Problem) and bool(now.pod.status.cpus)
    containers = () if now is None else tuple(_containers(driver, group, found.below, now, told, pinned))
    known = {each.group for each in containers}
    others = [each for each in found.below if f"{group}/{each}" not in known]
    return Pod(
        uid=found.uid,
        namespace=now.pod.namespace if now is not None else told.namespace if told is not None else "",
        name=now.pod.name if now is not None else told.name if told is not None else "",
        qos=qos_class(labels),
        kube_qos=found.kube_qos,
        priority_class=priority_class_or_default(labels, priority, found.kube_qos),
        priority=priority,
        labels=labels,
        annotations=annotations,
        requests=told.requests if told is not None else {},
        limits=told.limits if told is not None else {},
        containers=containers,
        group=group,
        sandbox_group=f"{group}/{others[0]}" if now is not None and len(others) == 1 else "",
        created=told.created if told is not None else "",
        is_known=told is not None,
        ips=() if now is None or now.pod.is_on_host_network else now.pod.ips,
        host_network=now is not None and now.pod.is_on_host_network,
        may_lower_oom_scores=told is not None and told.low_oom_scores,
        volumes=told.volumes if told is not None else {},
    )


def _containers(
    driver: Driver, group: str, below: tuple[str, ...], now: PodNow, told: NodePod | None, pinned: bool
) -> Iterable[Container]:
    """Sizes are those that SLO says of the container; a pod with a single one has its own. The runtime knows at least
    the quota that kubelet asked for."""
    sizes = {each.name: (each.requests, each.limits) for each in told.containers} if told is not None else {}
    if told is not None and not sizes and len(now.containers) == 1:
        sizes = {now.containers[0].name: (told.requests, told.limits)}
    for each in now.containers:
        requests, limits = sizes.get(each.name, ({}, {}))
        is_sized = each.name in sizes
        if each.limits is not None and each.limits.quota_us is not None and (CPU not in limits or not is_sized):
            limits = {**limits, CPU: each.limits.quota_us // 100} if each.limits.is_limited else limits
            is_sized = is_sized or MEMORY in limits
        name = next((name for name in below if each.id and container_id_of(driver, name) == each.id), "")
        yield Container(
            name=each.name,
            id=each.id,
            group=f"{group}/{name}" if name else "",
            requests=requests,
            limits=limits,
            is_sized=is_sized,
            is_running=each.runs,
            is_pinned=pinned,
        )
