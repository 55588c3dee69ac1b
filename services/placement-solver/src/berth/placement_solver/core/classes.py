"""Pod classes: pods that ask for the same are one class, so that a thousand replicas are judged once.

A class carries everything compiled: request as columns, device wish, node rule, tolerations. What the rules cannot
accept, or Berth does not support yet, is a reason of the class, so that every such pod is refused by name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.contracts.base import Problem, Reason
from berth.contracts.state import PodTemplate
from berth.placement_solver.core.devices import Want, gpu_want
from berth.placement_solver.core.nodes import DEVICE_NAMES, Nodes
from berth.rules.device_request import device_requests
from berth.rules.node_affinity import NodePreference, NodeRule, compile_node_rule, compile_preference
from berth.rules.taints import Tolerations

CLASSES_MAX: Final = 4096

UNSUPPORTED_ANNOTATIONS: Final = (
    names.ANNOTATION_DEVICE_HINT,
    names.ANNOTATION_DEVICE_JOINT,
    names.ANNOTATION_GPU_PARTITION_SPEC,
    names.ANNOTATION_NUMA_SPEC,
    names.ANNOTATION_RESOURCE_SPEC,
    names.ANNOTATION_TOPOLOGY_SELECTOR,
    names.ANNOTATION_GANG_TOPOLOGY,
    names.ANNOTATION_RESERVATION_EXACT,
)
"""Annotations that change where a pod may go, in ways that Berth does not honour yet."""
UNSUPPORTED_QOS: Final = ("LSE", "LSR")
"""QoS classes that are given cores of their own, which Berth does not hand out yet."""
UNSUPPORTED_LABELS: Final = (names.LABEL_GPU_ISOLATION,)
"""Labels that ask the node for something that Berth does not arrange yet, whatever their value."""
UNSUPPORTED_VALUES: Final = ((names.LABEL_OPERATING_MODE, "Reservation"),)
"""Labels of which one value asks for something that Berth does not do yet."""
UNSUPPORTED_RESOURCES: Final = (names.RDMA, names.FPGA, names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP)
"""Devices that Berth does not hand out yet."""


@dataclass(eq=False)
class PodClass:
    """One class, compiled against the columns of `Nodes`. The caches belong to `core.cost` and `core.explain`."""

    index: int
    template: PodTemplate
    requests: Mapping[str, int]
    columns: npt.NDArray[np.intp]
    amounts: npt.NDArray[np.int64]
    want: Want | None
    rule: NodeRule
    preference: NodePreference
    tolerations: Tolerations
    refusals: list[Reason]
    wants: tuple[tuple[int, int], ...] = ()
    """Columns with amounts once more, as plain numbers: for one row they are faster than arrays."""
    suitable: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    suitable_at: int = 0
    liked: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    cost: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    cost_at: int = 0
    nowhere: tuple[Reason, ...] = ()
    """Why no node took it when `cost_at` was `nowhere_at`."""
    nowhere_at: int = -1


class _Key(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    requests: dict[str, int]
    node_selector: dict[str, str]
    affinity: object
    tolerations: object
    ports: object
    spread: object
    volumes: object
    constraints: object
    notes: dict[str, str]
    qos: str


_encode = msgspec.json.Encoder(order="sorted").encode


class ClassTable:
    """Interns templates. Bounded: the class used longest ago is dropped, and compiled again when it comes back."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._classes: OrderedDict[bytes, PodClass] = OrderedDict()
        self._made = 0

    def of(self, template: PodTemplate, problems: list[Problem]) -> PodClass:
        """The class of a pod; problems found at the door become its refusals."""
        notes = {name: template.annotations[name] for name in UNSUPPORTED_ANNOTATIONS if name in template.annotations}
        notes |= {name: template.labels[name] for name in UNSUPPORTED_LABELS if name in template.labels}
        notes |= {name: value for name, value in UNSUPPORTED_VALUES if template.labels.get(name) == value}
        key = _encode(
            (
                _Key(
                    template.requests,
                    template.node_selector,
                    template.affinity,
                    template.tolerations,
                    template.host_ports,
                    template.topology_spread,
                    template.volumes,
                    template.constraints,
                    notes,
                    template.labels.get(names.LABEL_QOS, ""),
                ),
                problems,
            )
        )
        found = self._classes.get(key)
        if found is not None:
            self._classes.move_to_end(key)
            return found
        self._classes[key] = made = self._compile(template, problems)
        if len(self._classes) > CLASSES_MAX:
            self._classes.popitem(last=False)
        return made

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._classes.values())

    def _compile(self, template: PodTemplate, problems: list[Problem]) -> PodClass:
        plain = {
            resource: amount
            for resource, amount in template.requests.items()
            if amount > 0 and resource not in DEVICE_NAMES and resource != names.PODS
        }
        rule = compile_node_rule(template.node_selector, template.affinity)
        devices = device_requests(template.requests)
        found = [*problems, *rule.problems]
        want = None
        if isinstance(devices, Problem):
            found.append(devices)
        elif "gpu" in devices:
            want = gpu_want(devices["gpu"])
        self._made += 1
        wants = tuple((self._nodes.column(resource), min(amount, 1 << 62)) for resource, amount in plain.items())
        return PodClass(
            index=self._made,
            template=template,
            requests=template.requests,
            columns=np.array([column for column, _ in wants], np.intp),
            amounts=np.array([amount for _, amount in wants], np.int64),
            wants=wants,
            want=want,
            rule=rule,
            preference=compile_preference(template.affinity),
            tolerations=Tolerations(template.tolerations),
            refusals=[_invalid(problem) for problem in found] + [_unsupported(path) for path in _beyond(template)],
        )


def _beyond(template: PodTemplate) -> Iterator[str]:
    """Paths of what the pod asks for and Berth does not do yet."""
    yield from template.constraints
    if template.affinity is not None and template.affinity.pod_affinity is not None:
        yield "spec.affinity.podAffinity"
    if template.affinity is not None and template.affinity.pod_anti_affinity is not None:
        yield "spec.affinity.podAntiAffinity"
    if template.topology_spread:
        yield "spec.topologySpreadConstraints"
    yield from (f"spec.volumes[].{volume.source}" for volume in template.volumes)
    for name in UNSUPPORTED_ANNOTATIONS:
        if name in template.annotations:
            yield f"metadata.annotations[{name}]"
    if template.labels.get(names.LABEL_QOS) in UNSUPPORTED_QOS:
        yield f"metadata.labels[{names.LABEL_QOS}]={template.labels[names.LABEL_QOS]}"
    for name in UNSUPPORTED_LABELS:
        if name in template.labels:
            yield f"metadata.labels[{name}]"
    for name, value in UNSUPPORTED_VALUES:
        if template.labels.get(name) == value:
            yield f"metadata.labels[{name}]={value}"
    for name in UNSUPPORTED_RESOURCES:
        if template.requests.get(name, 0) > 0:
            yield f"resources.requests[{name}]"


def _unsupported(path: str) -> Reason:
    return Reason(code="unsupported", message=f"unsupported: {path}", field=path, repair=f"remove {path}")


def _invalid(problem: Problem) -> Reason:
    return Reason(
        code="invalid",
        message=f"{problem.field}: {problem.message}",
        field=problem.field,
        repair=f"correct {problem.field}",
    )
