"""What hooks see of a pod and of a group, and what makes pods one class for them.

Pods of one class look the same to every hook. Labels that only number the pods of a workload are left out, so that
all of them are one class.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from berth.contracts.state import PodTemplate

NUMBERING_LABELS: Final = frozenset(
    (
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "training.kubeflow.org/replica-index",
    )
)
"""Labels by which controllers number what they make."""
ID_BYTES: Final = 16


class HookedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is not bound, as hooks see it. Amounts are in thousandths of a core for cpu, else in base units."""

    namespace: str
    labels: dict[str, str] = {}
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    priority: int = 0
    priority_class: str = ""
    scheduler: str = ""
    node_selector: dict[str, str] = {}
    images: list[str] = []
    """Of its containers, in order."""


class HookedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A quota group as hooks see it. `labels` and `annotations` are those of its ElasticQuota, without what is written
    there of its figures. `used`, `request` and `runtime` are given to `shows` alone, since they change all the time."""

    name: str
    namespace: str = ""
    tree: str = ""
    parent: str = ""
    min: dict[str, int] = {}
    max: dict[str, int] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    used: dict[str, int] = {}
    request: dict[str, int] = {}
    runtime: dict[str, int] = {}


_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def hooked_pod(namespace: str, template: PodTemplate) -> HookedPod:
    """A pod of this template, as hooks see it."""
    labels = template.labels
    if not NUMBERING_LABELS.isdisjoint(labels):
        labels = {name: value for name, value in labels.items() if name not in NUMBERING_LABELS}
    return HookedPod(
        namespace=namespace,
        labels=labels,
        requests=template.requests,
        limits=template.limits,
        priority=template.priority,
        priority_class=template.priority_class,
        scheduler=template.scheduler,
        node_selector=template.node_selector,
        images=template.images,
    )


def class_id(pod: HookedPod) -> str:
    """What names its class: equal for pods that hooks see alike, in every process."""
    return hashlib.blake2b(_encode(pod), digest_size=ID_BYTES).hexdigest()
