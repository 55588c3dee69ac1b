"""Parts of the last-level cache and of memory bandwidth: a resctrl group for each class, and for pods that ask for one.

Threads of a container are moved into the group once they are seen; those that they start are in it by themselves. A
group that is taken away leaves its threads to the root, where they came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from zlib import crc32

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_RESCTRL
from berth.node_qos_enforcer.core.cgroup_paths import KubeQos
from berth.node_qos_enforcer.core.laws.resctrl import CACHE, Lines, class_lines, parse_schemata, pod_lines, request_of
from berth.node_qos_enforcer.core.proc import Cpu
from berth.node_qos_enforcer.core.strategies.knobs import CACHE_GROUP, CACHE_WAYS, SCHEMATA, TASKS, THREADS
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS, LSR_CLASS
from berth.node_qos_enforcer.core.strategies.seam import (
    Decided,
    Mount,
    Needs,
    Pod,
    Ref,
    Snapshot,
    Spec,
    Strategy,
    Wanted,
)
from berth.node_qos_enforcer.core.strategies.sections import block_of, integer, is_enabled
from berth.rules.cpus.qos import BE, LS, LSE, LSR, qos_class_or_default

ROOT: Final = "fs/resctrl"
CLASSES: Final = {LSR: LSR_CLASS, LS: LS_CLASS, BE: BE_CLASS}
POD_PREFIX: Final = "koordlet-"
LOOK_EVERY_S: Final = 10
"""Threads of one container are looked at this often: the ones that others start need no look."""
BLOCK: Final = "resctrlQOS"
NOBODY: Final = ("", frozenset[str]())


Memory = Mapping[str, tuple[str, frozenset[str]]]
"""What files of threads had in the last round, by group: as text, and word by word."""


def decide(snapshot: Snapshot, spec: Spec, memory: Memory) -> Decided:
    """Give groups, their parts, and who is to be in them."""
    found = snapshot.found
    cache_ids = sorted(parse_schemata(found.get(Ref(ROOT, SCHEMATA), "")).get(CACHE, {}))
    ways = found.get(Ref(f"{ROOT}/info/{CACHE}", CACHE_WAYS), "")
    if not cache_ids or not ways:
        return Decided(skipped=_missing(snapshot.node.cpu), memory=memory)
    wanted: list[Wanted] = []
    for name, class_name in CLASSES.items():
        block = block_of(spec, class_name, BLOCK)
        lines = class_lines(
            cache_ids=cache_ids,
            ways=ways,
            vendor=snapshot.node.cpu.vendor,
            start_percent=integer(block, "catRangeStartPercent"),
            end_percent=integer(block, "catRangeEndPercent"),
            bandwidth_percent=integer(block, "mbaPercent"),
        )
        wanted += _written(f"{ROOT}/{name}", lines)
    reports: list[Problem] = []
    inside = {ref.group: _words(text, memory.get(ref.group)) for ref, text in found.items() if ref.knob == TASKS}
    threads = {ref.group: text.split() for ref, text in found.items() if ref.knob == THREADS}
    for pod in snapshot.pods:
        read = [place for place in _places(pod) if threads.get(place)] if threads else []
        if not read and ANNOTATION_RESCTRL not in pod.annotations:
            continue
        request = request_of(pod.annotations)
        if isinstance(request, Problem):
            reports.append(Problem(field=f"{pod.key}.{request.field}"[:300], message=request.message))
            request = None
        own = ""
        if request is not None:
            own = f"{ROOT}/{POD_PREFIX}{pod.uid}"
            wanted += _written(own, pod_lines(request, cache_ids=cache_ids, ways=ways, vendor=snapshot.node.cpu.vendor))
        if not read:
            continue
        # While its own cannot be made, since the machine has no more of them, its class has to do.
        group = own if own in inside else class_group(pod, spec)
        for place in read if group else ():
            missing = [each for each in threads[place] if each not in inside.get(group, NOBODY)[1]]
            if missing:
                wanted.append(Wanted(group, TASKS, "\n".join(missing), place))
    return Decided(tuple(wanted), inside, reports=tuple(reports))


def _words(text: str, before: tuple[str, frozenset[str]] | None) -> tuple[str, frozenset[str]]:
    return before if before is not None and before[0] == text else (text, frozenset(text.split()))


def _missing(cpu: Cpu) -> str:
    """Why there is nothing to write to."""
    if cpu.flags and not cpu.flags & {"cat_l3", "mba"}:
        return "the CPUs part neither caches (cat_l3) nor memory bandwidth (mba)"
    told = ", ".join(name for name, is_told in (("l3cat", cpu.rdt.cat), ("mba", cpu.rdt.mba)) if is_told)
    return f"resctrl is not mounted on this machine; its kernel was started with rdt={told or 'nothing'}"


def class_group(pod: Pod, spec: Spec) -> str:
    """The group of a pod's class; empty where nobody holds the class."""
    qos = _class_of(pod.qos, pod.kube_qos, spec) if pod.is_known else ""
    return f"{ROOT}/{qos}" if qos else ""


def beginning_group(uid: str, qos: str, kube_qos: KubeQos, *, asks: bool, there: frozenset[str], spec: Spec) -> str:
    """The name of the group that a container begins in; empty: the one of whoever starts it.

    Args:
        uid: of its pod.
        qos: the class of the pod's label; empty: none.
        kube_qos: Kubernetes' class.
        asks: whether the pod asks for a group of its own, which counts once it is there.
        there: the groups that are there, by name: the runtime refuses a container in any other.
        spec: the node's specification.
    """
    own = f"{POD_PREFIX}{uid}"
    group = own if asks and own in there else _class_of(qos, kube_qos, spec)
    return group if group in there else ""


def groups_of(found: Mapping[Ref, str]) -> frozenset[str]:
    """The groups below the root that are there, by name, of what was read for a round."""
    below = f"{ROOT}/"
    return frozenset(
        ref.group.removeprefix(below) for ref in found if ref.knob == TASKS and ref.group.startswith(below)
    )


def _class_of(qos: str, kube_qos: KubeQos, spec: Spec) -> str:
    found = qos or qos_class_or_default({}, kube_qos)
    found = LSR if found == LSE else found
    return found if found in CLASSES and is_enabled(spec, CLASSES[found], BLOCK) else ""


def _written(group: str, lines: Lines) -> Iterator[Wanted]:
    yield Wanted(group, CACHE_GROUP, "there")
    for line in lines:
        if line is not None:
            yield Wanted(group, SCHEMATA, line.strip(), line.partition(":")[0])


def _places(pod: Pod) -> tuple[str, ...]:
    return tuple(place for place in (*(each.group for each in pod.containers), pod.sandbox_group) if place)


def _reads(snapshot: Snapshot, spec: Spec) -> Iterator[Ref]:
    yield Ref(ROOT, SCHEMATA)
    yield Ref(f"{ROOT}/info/{CACHE}", CACHE_WAYS)
    for name in CLASSES:
        yield Ref(f"{ROOT}/{name}", TASKS)
    turn = int(snapshot.now_s) % LOOK_EVERY_S
    for pod in snapshot.pods:
        if ANNOTATION_RESCTRL in pod.annotations:
            yield Ref(f"{ROOT}/{POD_PREFIX}{pod.uid}", TASKS)
        if crc32(pod.uid.encode()) % LOOK_EVERY_S != turn:
            continue
        if ANNOTATION_RESCTRL in pod.annotations or class_group(pod, spec):
            for place in _places(pod):
                yield Ref(place, THREADS)


def _is_on(spec: Spec) -> bool:
    return any(is_enabled(spec, each, BLOCK) for each in CLASSES.values())


CACHES: Final = Strategy(
    "caches",
    "enforce-cores",
    decide,
    _is_on,
    needs=Needs(
        knobs=(CACHE_GROUP, SCHEMATA, TASKS),
        files=("/sys/fs/resctrl/schemata",),
        mounts=(Mount("/sys/fs/resctrl", writes=True),),
        host_pid=True,
    ),
    reads=_reads,
    memory={},
    reads_by_turns=True,
)
