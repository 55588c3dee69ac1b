"""QoS class and priority class of a pod as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.contracts.names import CPU, LABEL_QOS, MEMORY
from berth.resources.amounts import parse_amounts
from berth.rules.admission.draft import list_in, mapping_in, texts_in
from berth.rules.cpus.qos import (
    BATCH,
    FREE,
    KUBE_QOS_CLASSES,
    MID,
    PROD,
    ContainerSize,
    kube_qos_class,
    priority_class,
    priority_class_or_default,
    qos_class_or_default,
)

Json = Mapping[str, Any]

DEFAULT_PRIORITIES: Final = {PROD: 9500, MID: 7500, BATCH: 5500, FREE: 3500, "": 0}
"""The priority that stands for a class."""
_COUNTED: Final = (CPU, MEMORY)


def priority_of(pod: Json) -> int | None:
    """`spec.priority`; None where it is absent."""
    value = mapping_in(pod, "spec").get("priority")
    return value if type(value) is int else None


def kube_qos_of(pod: Json) -> str:
    """Kubernetes' QoS class: what the status says, else what it comes to."""
    told = mapping_in(pod, "status").get("qosClass")
    return told if isinstance(told, str) and told in KUBE_QOS_CLASSES else kube_qos_class(_sizes(pod))


def qos_with_default(pod: Json) -> str:
    """The QoS class, else the one that stands for Kubernetes' own."""
    return qos_class_or_default(texts_in(pod, "metadata", "labels"), kube_qos_of(pod))


def class_of(pod: Json) -> str:
    """The priority class by label or number; empty: none."""
    return priority_class(texts_in(pod, "metadata", "labels"), priority_of(pod))


def class_with_default(pod: Json) -> str:
    """The priority class, else the one that goes with the QoS class."""
    found = class_of(pod)
    if found:
        return found
    return priority_class_or_default(texts_in(pod, "metadata", "labels"), priority_of(pod), kube_qos_of(pod))


def priority_with_default(pod: Json) -> int:
    """The priority, else the one that stands for the class."""
    priority = priority_of(pod)
    return DEFAULT_PRIORITIES[class_with_default(pod)] if priority is None else priority


def qos_label(pod: Json) -> str:
    """The label as it is written, known or not."""
    return texts_in(pod, "metadata", "labels").get(LABEL_QOS, "")


def _sizes(pod: Json) -> Iterator[ContainerSize]:
    for field in ("containers", "initContainers"):
        for container in list_in(pod, "spec", field):
            resources = mapping_in(container, "resources")
            yield ContainerSize(*(_amounts(resources.get(part)) for part in ("requests", "limits")))


def _amounts(written: Any) -> dict[str, int]:
    found = mapping_in(written)
    counted = {name: found[name] for name in _COUNTED if name in found}
    return parse_amounts(counted, "")[0] if counted else {}
