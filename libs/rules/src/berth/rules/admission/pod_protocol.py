"""What the protocol forbids of a pod: marks that contradict each other, and changes of what must not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.contracts.names import (
    ANNOTATION_RESERVE_POD,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    LABEL_PRIORITY,
    LABEL_PRIORITY_CLASS,
    LABEL_QOS,
)
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.pod_request import ContainerAmounts, PodAmounts, pod_requests
from berth.rules.admission import gates
from berth.rules.admission.classes import class_of, qos_label
from berth.rules.admission.draft import list_in, mapping_in, texts_in
from berth.rules.admission.seam import UPDATE, Case, Refusal
from berth.rules.bounded_json import annotation_field, label_field
from berth.rules.cpus.qos import BATCH, BE, FREE, LSE, LSR, MID, PROD, QOS_CLASSES

Json = Mapping[str, Any]

_ALLOWED: Final = {LSR: frozenset({PROD}), BE: frozenset({MID, BATCH, FREE})}
"""By QoS class: the priority classes that go with it; the others go with all of them."""
_WHOLE_CORES: Final = frozenset({LSE, LSR})
_COUNTED: Final = (CPU, BATCH_CPU, BATCH_MEMORY)
_CORE_MILLI: Final = 1000
_IMMUTABLE: Final = "field is immutable"
_QOS: Final = label_field(LABEL_QOS)
_REQUESTS: Final = "spec.containers[*].resources.requests"


def forbidden(pod: Json) -> Iterator[Refusal]:
    """Annotations that only the system writes."""
    if ANNOTATION_RESERVE_POD in texts_in(pod, "metadata", "annotations"):
        field = annotation_field(ANNOTATION_RESERVE_POD)
        yield Refusal("forbiddenAnnotation", field, "is written by the system alone")


def contradictions(pod: Json) -> Iterator[Refusal]:
    """QoS class against resources, priority class and whole cores."""
    written = qos_label(pod)
    qos = written if written in QOS_CLASSES else ""
    requests = _requests(pod)
    if written != BE and (requests.get(BATCH_CPU, 0) > 0 or requests.get(BATCH_MEMORY, 0) > 0):
        yield Refusal("batchRequiresBE", _QOS, "must specify koordinator QoS BE with koordinator colocation resources")
    found = class_of(pod)
    if qos in _ALLOWED and found not in _ALLOWED[qos]:
        text = f"{LABEL_QOS}={qos} and priorityClass={found or 'none'} cannot be used in combination"
        yield Refusal("qosPriorityConflict", _QOS, text)
    if qos in _WHOLE_CORES:
        cpu = requests.get(CPU, 0)
        if cpu <= 0:
            yield Refusal("cpuRequired", f"{_REQUESTS}[cpu]", f"{qos} Pod must declare the requested CPUs")
        elif cpu % _CORE_MILLI:
            text = f"the requested CPUs of {qos} Pod must be integer"
            yield Refusal("cpuNotInteger", f"{_REQUESTS}[cpu]", text)


def changes(
    old: Json, new: Json, *, priority_is_free: bool = False, lowering_is_free: bool = True
) -> Iterator[Refusal]:
    """What must not differ between two versions of a pod.

    Args:
        old: the version before.
        new: as it is to be.
        priority_is_free: the sub-priority may change.
        lowering_is_free: it may become a smaller number.
    """
    before, now = (texts_in(pod, "metadata", "labels") for pod in (old, new))
    qos = [text if text in QOS_CLASSES else "" for text in (before.get(LABEL_QOS), now.get(LABEL_QOS))]
    if qos[0] != qos[1]:
        yield Refusal("qosImmutable", _QOS, _IMMUTABLE)
    if class_of(old) != class_of(new):
        field = label_field(LABEL_PRIORITY_CLASS) if LABEL_PRIORITY_CLASS in {**before, **now} else "spec.priority"
        yield Refusal("priorityClassImmutable", field, _IMMUTABLE)
    numbers = [labels.get(LABEL_PRIORITY, "") for labels in (before, now)]
    if numbers[0] != numbers[1] and not priority_is_free and not (lowering_is_free and _is_lower(*numbers)):
        yield Refusal("priorityImmutable", label_field(LABEL_PRIORITY), _IMMUTABLE)


def run(case: Case) -> None:
    """The rule. On a change only what the change makes wrong: a pod that slipped by must still lose its finalizers."""
    new = case.draft.now
    found = [*forbidden(new), *contradictions(new)]
    if case.request.operation == UPDATE:
        old = case.request.old_object or {}
        stood = {refusal.rule for refusal in (*forbidden(old), *contradictions(old))}
        found = [refusal for refusal in found if refusal.rule not in stood]
        found += changes(old, new, priority_is_free=gates.FREE_SUB_PRIORITY in case.gates)
    for refusal in found:
        case.refuse(*refusal)


def _requests(pod: Json) -> Amounts:
    """What the pod asks for of the resources that are judged; what cannot be read is left out."""
    containers, init_containers = (
        [
            ContainerAmounts(_counted(container), mapping_in(container).get("restartPolicy") == "Always")
            for container in list_in(pod, "spec", field)
        ]
        for field in ("containers", "initContainers")
    )
    level = parse_amounts({n: a for n, a in mapping_in(pod, "spec", "resources", "requests").items() if n == CPU}, "")
    return pod_requests(PodAmounts(containers, init_containers, level[0]))


def _counted(container: Any) -> Amounts:
    requests = mapping_in(container, "resources", "requests")
    counted = {name: requests[name] for name in _COUNTED if name in requests}
    return parse_amounts(counted, "")[0] if counted else {}


def _is_lower(before: str, now: str) -> bool:
    try:
        return int(now) < int(before)
    except ValueError:
        return False
