"""Limits of disks: of the best-effort group, of single pods by annotation, and latencies of whole disks at the root.

On version 1 a limit holds the processes of its very group and not those of groups below. So there the containers of
such pods have it as well, each for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_BLKIO_QOS
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.laws import block_io
from berth.node_qos_enforcer.core.laws.disks import POD_VOLUME, Disks, number_of
from berth.node_qos_enforcer.core.strategies.knobs import DISK_KNOBS
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, ROOT_CLASS
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Pod, Snapshot, Spec, Strategy, Wanted
from berth.node_qos_enforcer.core.strategies.sections import block_of, is_enabled
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BEST_EFFORT

BLOCK: Final = "blkioQOS"
ROOT: Final = ""
KUBELET_ROOT: Final = "/var/lib/kubelet"


def asks_for_disks(spec: Spec, pods: Iterable[Pod]) -> bool:
    """Whether anything limits a disk."""
    of_classes = any(is_enabled(spec, name, BLOCK) for name in (BE_CLASS, ROOT_CLASS))
    return of_classes or any(ANNOTATION_BLKIO_QOS in pod.annotations for pod in pods)


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Give the lines of every group that has any. Of a group with a disk that is not known nothing is decided."""
    node = snapshot.node
    if node.driver is None:
        return Decided(skipped="no kubelet here")
    if not asks_for_disks(spec, snapshot.pods):
        return Decided()
    if not snapshot.disks.disk_number:
        return Decided(skipped="the disks of this machine are not known yet")
    reports: list[Problem] = []
    wanted: list[Wanted] = []
    of_best_effort: Mapping[str, block_io.Limits] = {}
    for group, name, is_root in ((qos_dir(node.driver, "BestEffort"), BE_CLASS, False), (ROOT, ROOT_CLASS, True)):
        if is_enabled(spec, name, BLOCK):
            blocks = block_of(spec, name, BLOCK).get("blocks") or []
            limits = _limits(blocks, snapshot.disks, f"{name}.{BLOCK}.blocks", None)
            if not isinstance(limits, Problem):
                wanted += _lines(group, limits, node.version, is_root=is_root)
                of_best_effort = of_best_effort if is_root else limits
            else:
                reports.append(limits)
    for pod in snapshot.pods:
        own = _of_pod(pod, snapshot.disks)
        if isinstance(own, Problem):
            reports.append(own)
            own = {}
        wanted += _lines(pod.group, own, node.version)
        if node.version == 1:
            inherited = {**of_best_effort, **own} if pod.kube_qos == BEST_EFFORT else own
            for container in pod.containers:
                wanted += _lines(container.group, inherited, node.version) if container.group else ()
    return Decided(tuple(wanted), reports=tuple(reports))


def _limits(raw: object, disks: Disks, field: str, pod: Pod | None) -> dict[str, block_io.Limits] | Problem:
    """What holds for each disk. One entry that cannot be used makes all of them useless."""
    blocks = block_io.blocks_of(raw, field)
    if isinstance(blocks, Problem):
        return blocks
    limits: dict[str, block_io.Limits] = {}
    for position, each in enumerate(blocks):
        if pod is not None and each.kind != POD_VOLUME:
            return Problem(field=f"{field}[{position}].type"[:300], message="a pod limits its own volumes alone")
        disk = number_of(
            disks,
            each.kind,
            each.name,
            kubelet_root=KUBELET_ROOT,
            pod_uid="" if pod is None else pod.uid,
            # Where nobody says otherwise it is kubelet's name for it.
            volume="" if pod is None else pod.volumes.get(each.name, each.name),
        )
        if disk is None:
            return Problem(field=f"{field}[{position}]"[:300], message=f"no such disk: {each.name[:60]!r}")
        limits[disk] = each.io_cfg
    return limits


def _of_pod(pod: Pod, disks: Disks) -> Mapping[str, block_io.Limits] | Problem:
    """What a pod's annotation says of its volumes."""
    asked = read_annotation(pod.annotations, ANNOTATION_BLKIO_QOS, dict[str, Any])
    if asked is None or not pod.qos or not pod.group:
        return {}
    if isinstance(asked, Problem):
        return Problem(field=f"{pod.key}.{asked.field}"[:300], message=asked.message)
    field = f"{pod.key}.{annotation_field(ANNOTATION_BLKIO_QOS)}.blocks"
    return _limits(asked.get("blocks") or [], disks, field, pod)


def _lines(
    group: str, limits: Mapping[str, block_io.Limits], version: int, *, is_root: bool = False
) -> Iterator[Wanted]:
    of_version = (
        (block_io.group_lines, block_io.root_lines)
        if version == 1
        else (
            block_io.group_lines_v2,
            block_io.root_lines_v2,
        )
    )
    for disk, each in limits.items():
        for file, line in of_version[is_root](disk, each).items():
            yield Wanted(group, DISK_KNOBS[file], line.removeprefix(f"{disk} "), disk)


def _is_on(spec: Spec) -> bool:
    return True


BLOCK_IO: Final = Strategy(
    "block-io",
    "enforce",
    decide,
    _is_on,
    needs=Needs(knobs=tuple(DISK_KNOBS.values()), tools=("lsblk", "findmnt", "vgs", "lvs")),
)
