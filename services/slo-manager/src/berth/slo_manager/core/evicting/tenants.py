"""The pods of a node as their agent has to know them, and what evictions go by beside that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.kube import OwnerReference
from berth.contracts.names import CPU, LENT, MEMORY
from berth.contracts.slo import NodePod
from berth.contracts.state import Pod
from berth.rules.cpus.qos import priority_class_or_default
from berth.rules.node_evictions.candidates import Candidate
from berth.rules.node_evictions.notes import NodeEviction, noted_eviction
from berth.rules.preemption import why_protected

HEEDED: Final = "koordinator.sh/"
NOT_HEEDED: Final = "scheduling."
"""What names begin with that say something to the solver, and nothing to a node."""
TEXT_MAX: Final = 4_096
"""A longer text is left out: no strategy needs one, and entries stay small."""
_AMOUNTS: Final = (CPU, MEMORY, *LENT)
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Tenant(NamedTuple):
    """A pod on its node: what SLO says of it, why it is evicted or stays, and what protects it (empty: nothing). Its
    volumes are those of `state.Pod.limited_volumes`, until whoever knows the claims puts folders in their places."""

    pod: NodePod
    note: NodeEviction | None
    protected: str

    @property
    def candidate(self) -> Candidate:
        """What decides whether it may be evicted."""
        pod = self.pod
        return Candidate(pod.labels, pod.annotations, pod.priority, pod.kube_qos, pod.phase or "Pending")


def tenant_of(pod: Pod) -> Tenant | None:
    """None for a pod that is on no node, or has ended."""
    if not pod.node or pod.phase in _ENDED:
        return None
    template = pod.template
    entry = NodePod(
        node=pod.node,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        kube_qos=template.kube_qos,
        priority=template.priority,
        priority_class=priority_class_or_default(template.labels, template.priority, template.kube_qos),
        phase=pod.phase,
        labels=_heeded(template.labels),
        annotations=_heeded(template.annotations),
        requests={name: template.requests[name] for name in _AMOUNTS if name in template.requests},
        limits={name: template.limits[name] for name in _AMOUNTS if name in template.limits},
        workload=workload_of(pod.namespace, pod.owners),
        created=pod.created,
        deleting=pod.deleting,
        volumes=pod.limited_volumes,
    )
    return Tenant(entry, noted_eviction(template.annotations), why_protected(pod))


def workload_of(namespace: str, owners: Iterable[OwnerReference]) -> str:
    """The owner that controls a pod, else the first; empty without one."""
    owners = list(owners)
    found = next((each for each in owners if each.controller), owners[0] if owners else None)
    return "" if found is None else f"{found.kind}/{namespace}/{found.name}"


def _heeded(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        name: text
        for name, text in texts.items()
        if HEEDED in name and not name.startswith(NOT_HEEDED) and len(text) <= TEXT_MAX
    }
