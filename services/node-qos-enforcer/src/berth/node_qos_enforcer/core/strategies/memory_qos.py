"""Memory QoS: services keep a protected amount of memory, and are slowed before they reach their limit; best-effort
pods are reclaimed and killed first.

A class whose block is off, and whose pods say nothing themselves, is left as kubelet has it. What classes protect is
held to what the node has: protection of more than that protects nobody. Whether all of a group is killed at once is
said of pods and containers alone: of a class it would be all of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import BATCH_MEMORY, MEMORY
from berth.node_qos_enforcer.core.cgroup_paths import KUBE_QOS, KubeQos, qos_dir
from berth.node_qos_enforcer.core.knob_texts import MAX
from berth.node_qos_enforcer.core.laws import memory as law
from berth.node_qos_enforcer.core.laws.batch import Sizes, read_spec
from berth.node_qos_enforcer.core.strategies.knobs import MEMORY_QOS
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS, LSR_CLASS
from berth.node_qos_enforcer.core.strategies.seam import (
    Container,
    Decided,
    Needs,
    Pod,
    Snapshot,
    Spec,
    Strategy,
    Wanted,
)
from berth.node_qos_enforcer.core.strategies.sections import block_of
from berth.rules.cpus.qos import BE

_OF_QOS_DIR: Final[Mapping[KubeQos, str]] = {"Guaranteed": LSR_CLASS, "Burstable": LS_CLASS, "BestEffort": BE_CLASS}
_OF_CLASSES: Final = ("memory.priority", "memory.use_priority_oom")


class _Size(NamedTuple):
    request: int
    limit: int | None


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """The values of each pod that asks for it, and of the classes."""
    allocatable = snapshot.node.allocatable.get(MEMORY, 0)
    if allocatable <= 0:
        return Decided(skipped="the node's allocatable memory is not known")
    wanted: list[Wanted] = []
    protected: list[law.Protected] = []
    reports: list[Problem] = []
    for pod in snapshot.pods:
        config = _config(pod, spec)
        if config is None or not pod.is_known or not pod.group:
            continue
        sizes = read_spec(pod.annotations) if pod.qos == BE else {}
        if isinstance(sizes, Problem):
            reports.append(Problem(field=f"{pod.key}.{sizes.field}", message=sizes.message))
            continue
        request = _request_of_pod(pod, sizes)
        protected.append(law.Protected(pod.kube_qos, request, config))
        wanted += _values(pod.group, law.pod_values(config, request))
        for each in pod.containers:
            size = _size(pod, each, sizes)
            if each.group and size is not None:
                wanted += _values(each.group, law.container_values(config, size.request, size.limit, allocatable))
    wanted += _of_classes(snapshot, spec, protected, allocatable)
    return Decided(tuple(wanted), reports=tuple(reports))


def _config(pod: Pod, spec: Spec) -> Mapping[str, int] | None:
    """The fields that hold for a pod; None: it is left alone."""
    block = _block(spec, law.class_of(pod.labels, pod.kube_qos))
    annotation = pod.annotations.get(law.ANNOTATION)
    if block.get(law.ENABLE) is not True and not annotation:
        return None
    return law.merged(pod.labels, pod.kube_qos, block, annotation)


def _block(spec: Spec, section: str) -> Mapping[str, Any]:
    return block_of(spec, section, "memoryQOS")


def _request_of_pod(pod: Pod, sizes: Mapping[str, Sizes]) -> int:
    if sizes:
        return sum(max(each.requests.get(BATCH_MEMORY, 0), 0) for each in sizes.values())
    return pod.requests.get(BATCH_MEMORY if pod.qos == BE else MEMORY, 0)


def _size(pod: Pod, container: Container, sizes: Mapping[str, Sizes]) -> _Size | None:
    """Request and limit of a container; None: not known."""
    if container.name in sizes:
        size = sizes[container.name]
        return _Size(size.requests.get(BATCH_MEMORY, 0), size.limits.get(BATCH_MEMORY))
    if not container.is_sized:
        return None
    name = BATCH_MEMORY if pod.qos == BE else MEMORY
    return _Size(container.requests.get(name, 0), container.limits.get(name))


def _of_classes(snapshot: Snapshot, spec: Spec, protected: list[law.Protected], allocatable: int) -> Iterable[Wanted]:
    driver = snapshot.node.driver
    if driver is None:
        return
    sums = law.class_values(protected)
    for qos in KUBE_QOS:
        values = {file: min(amount, allocatable) for file, amount in sums[qos].items()}
        block = _block(spec, _OF_QOS_DIR[qos])
        if block.get(law.ENABLE) is True:
            config = law.merged({}, qos, block, None)
            values |= {file: value for file, value in law.pod_values(config, 0).items() if file in _OF_CLASSES}
        yield from _values(qos_dir(driver, qos), values)


def _values(group: str, values: Mapping[str, int]) -> Iterable[Wanted]:
    for file, value in values.items():
        yield Wanted(group, file, MAX if value >= law.NO_LIMIT else str(value))


MEMORY_QOS_STRATEGY: Final = Strategy(
    "memory-qos",
    "enforce",
    decide,
    # A pod's annotation may ask for it where the node does not.
    lambda _: True,
    needs=Needs(knobs=MEMORY_QOS),
    is_steady=True,
)
