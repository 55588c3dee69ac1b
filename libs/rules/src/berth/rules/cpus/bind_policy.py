"""Whether a pod gets CPUs of its own, by which policy, and whether a node's own policy allows that.

Pods of the classes LSE and LSR with the priority class `koord-prod` ask for them; a node may give them to every pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import (
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_RESOURCE_SPEC,
    CPU,
    LABEL_CPU_BIND_POLICY,
)
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.available import FULL_PCPUS, SPREAD_BY_PCPUS
from berth.rules.cpus.kubelet import STATIC, CpuManager
from berth.rules.cpus.layout import CpuLayout
from berth.rules.cpus.qos import LSE, LSR, PROD, priority_class_or_default, qos_class
from berth.rules.cpus.take import whole_cores_sum_to
from berth.rules.gpu_request import request_field

DEFAULT: Final = "Default"
"""The policy text that stands for the profile's."""
CONSTRAINED_BURST: Final = "ConstrainedBurst"
"""A policy that the protocol names and nobody carries out."""

NOT_INTEGER: Final = "the requested CPUs must be integer"
NO_LAYOUT: Final = "node(s) invalid CPU Topology"
CONFLICT: Final = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
NOT_WHOLE_CORES: Final = "node(s) requested cpus not multiple cpus per core"
KUBELET_GIVES: Final = (
    f"node(s) whose kubelet gives out CPUs itself, unsupported: {ANNOTATION_CPU_MANAGER_POLICY}={STATIC}"
)

_BOUND: Final = frozenset({FULL_PCPUS, SPREAD_BY_PCPUS})
_OF_LABEL: Final = {"FullPCPUsOnly": FULL_PCPUS, SPREAD_BY_PCPUS: SPREAD_BY_PCPUS}
_FIELD: Final = annotation_field(ANNOTATION_RESOURCE_SPEC)


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation `resource-spec` as it stands."""

    required_bind: str = msgspec.field(default="", name="requiredCPUBindPolicy")
    preferred_bind: str = msgspec.field(default="", name="preferredCPUBindPolicy")
    exclusive: str = msgspec.field(default="", name="preferredCPUExclusivePolicy")


NO_SPEC: Final = ResourceSpec()


class CpuBinding(NamedTuple):
    """What a pod asks for: how many whole CPUs, and whether they are to be its own (`bound`).

    `preferred` is the bind policy, which must hold where `required` says the same; `exclusive` the exclusive policy.
    """

    number: int = 0
    bound: bool = False
    required: str = ""
    preferred: str = ""
    exclusive: str = ""


class NodeBinding(NamedTuple):
    """What a pod gets on one node: a number of CPUs of its own (0: none) by `policy`, which `required` says must hold.

    Or the `reason` why it may not go there, which no eviction changes.
    """

    number: int = 0
    policy: str = ""
    required: bool = False
    reason: str = ""


def read_resource_spec(annotations: Mapping[str, str]) -> ResourceSpec | Problem:
    """What the annotation says."""
    read = read_annotation(annotations, ANNOTATION_RESOURCE_SPEC, ResourceSpec)
    return NO_SPEC if read is None else read


def cpu_binding(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    priority: int | None,
    requests: Mapping[str, int],
    *,
    default: str = FULL_PCPUS,
) -> CpuBinding | Problem | None:
    """What a pod asks for; None for one that requests nothing, which no rule of CPUs concerns.

    `requests` are the pod's amounts, `default` the profile's bind policy. A policy text that nobody knows binds
    nothing. A problem makes the pod unschedulable everywhere: an annotation that cannot be read, or a part of a CPU,
    which cannot be its own.
    """
    if not any(amount > 0 for amount in requests.values()):
        return None
    spec = read_resource_spec(annotations)
    if isinstance(spec, Problem):
        return spec
    milli = requests.get(CPU, 0)
    unbound = CpuBinding(milli // 1000)
    # The class of such a pod never follows from Kubernetes' own: its label says it.
    if qos_class(labels) not in (LSE, LSR) or priority_class_or_default(labels, priority, "") != PROD:
        return unbound
    required = default if spec.required_bind == DEFAULT else spec.required_bind
    preferred = required or (default if spec.preferred_bind in ("", DEFAULT) else spec.preferred_bind)
    if preferred not in _BOUND:
        return unbound
    if milli % 1000:
        return Problem(field=request_field(CPU), message=NOT_INTEGER)
    return CpuBinding(milli // 1000, True, required, preferred, spec.exclusive) if milli else unbound


def unsupported_policy(spec: ResourceSpec) -> Problem | None:
    """A policy of the protocol that is not carried out: to be refused by name instead of being ignored."""
    for key, policy in (("requiredCPUBindPolicy", spec.required_bind), ("preferredCPUBindPolicy", spec.preferred_bind)):
        if policy == CONSTRAINED_BURST:
            return Problem(field=f"{_FIELD}.{key}", message=f"{CONSTRAINED_BURST} is not supported")
    return None


def node_bind_policy(labels: Mapping[str, str], kubelet: CpuManager) -> str:
    """The bind policy that a node requires of all pods with cpu: kubelet's whole cores, else its label's, else none."""
    return FULL_PCPUS if kubelet.full_cores_only else _OF_LABEL.get(labels.get(LABEL_CPU_BIND_POLICY, ""), "")


def effective_policy(node_policy: str, required: str, preferred: str) -> tuple[str, bool]:
    """The policy to choose CPUs by, and whether it must hold: the node's, else what the pod requires, else prefers."""
    must = node_policy or required
    return must or preferred, bool(must)


def bind_on_node(
    binding: CpuBinding,
    cpu_milli: int,
    *,
    labels: Mapping[str, str],
    kubelet: CpuManager,
    layout: CpuLayout | None,
    beside_kubelet: bool = False,
) -> NodeBinding:
    """What a pod gets on a node, by everything but which CPUs are free.

    Args:
        binding: what the pod asks for.
        cpu_milli: its cpu request.
        labels: the node's.
        kubelet: its CPU manager.
        layout: its CPUs; None: it has none that can be used.
        beside_kubelet: also where kubelet gives out CPUs itself. Without that, no pod gets CPUs of its own there, and
            kubelet's rule for whole cores concerns kubelet's pods alone.
    """
    if not beside_kubelet and kubelet.is_static:
        node_policy = node_bind_policy(labels, CpuManager())
    else:
        node_policy = node_bind_policy(labels, kubelet)
    if not binding.bound and not (node_policy and cpu_milli > 0):
        return NodeBinding()
    if cpu_milli % 1000:
        return NodeBinding(reason=NOT_INTEGER)
    if kubelet.is_static and not beside_kubelet:
        return NodeBinding(reason=KUBELET_GIVES)
    if layout is None:
        return NodeBinding(reason=NO_LAYOUT)
    if node_policy and binding.required and node_policy != binding.required:
        return NodeBinding(reason=CONFLICT)
    policy, must = effective_policy(node_policy, binding.required, binding.preferred)
    count = cpu_milli // 1000
    if must and policy == FULL_PCPUS and not whole_cores_sum_to(layout, count):
        return NodeBinding(reason=NOT_WHOLE_CORES)
    return NodeBinding(count, policy, must)


def with_resolved_policy(spec: ResourceSpec, policy: str, *, required: bool) -> ResourceSpec:
    """The annotation of a pod that was given CPUs by this policy: what it left to a default is written out."""
    required_bind, preferred_bind = spec.required_bind, spec.preferred_bind
    if required and required_bind in ("", DEFAULT):
        required_bind = policy
    if preferred_bind == DEFAULT or not (required_bind or preferred_bind):
        preferred_bind = policy
    return ResourceSpec(required_bind, preferred_bind, spec.exclusive)


def format_resource_spec(spec: ResourceSpec) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(spec).decode()
