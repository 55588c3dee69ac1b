"""The priority class of a pod, and which resource it therefore asks for.

Batch and mid pods ask for resources of their own (`kubernetes.io/batch-cpu`, `kubernetes.io/mid-memory`), so that
what is lent to them is not counted against the node. Class resolution and names are those of the Koordinator
protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Basic = Literal["cpu", "memory"]

_PRIORITY_RANGES = {
    "koord-prod": range(9000, 10000),
    "koord-mid": range(7000, 8000),
    "koord-batch": range(5000, 6000),
    "koord-free": range(3000, 4000),
}
_QOS_OF_KUBE_QOS = {"Guaranteed": "LSR", "Burstable": "LS", "BestEffort": "BE"}
_CLASS_OF_QOS = {
    "LSE": "koord-prod",
    "LSR": "koord-prod",
    "LS": "koord-prod",
    "SYSTEM": "koord-prod",
    "BE": "koord-batch",
}
_PREFIX_OF_CLASS = {"koord-batch": "kubernetes.io/batch-", "koord-mid": "kubernetes.io/mid-"}


def qos_with_default(label: str, kube_qos: str) -> str:
    """Return the QoS class by label, else by the Kubernetes QoS class, else none (empty)."""
    return label if label in _CLASS_OF_QOS else _QOS_OF_KUBE_QOS.get(kube_qos, "")


def priority_class(*, label: str | None, priority: int | None, qos: str) -> str:
    """Return the priority class: by label if there is one, else by priority value, else by QoS class; empty for none.

    Args:
        label: the pod's priority-class label; None: absent.
        priority: `spec.priority`.
        qos: the QoS class with its default.
    """
    if label is not None:
        named = label if label in _PRIORITY_RANGES else ""
    else:
        named = next((name for name, values in _PRIORITY_RANGES.items() if priority in values), "")
    return named or _CLASS_OF_QOS.get(qos, "")


def class_request(containers: Sequence[Mapping[str, int]], klass: str, resource: Basic) -> tuple[str, int]:
    """Return the resource that a pod of this class asks for, and how much.

    Args:
        containers: the requests of each container, CPU in milli-cores, memory in bytes.
        klass: the priority class.
        resource: which of the two is meant.

    Returns:
        The name counted, and the sum over the containers; a negative request counts as nothing.
    """
    prefix = _PREFIX_OF_CLASS.get(klass)
    name = resource if prefix is None else f"{prefix}{resource}"
    return name, sum(max(requests.get(name, 0), 0) for requests in containers)


def kube_qos_of_requests(containers: Sequence[Mapping[str, int]]) -> str:
    """Tell BestEffort from Burstable by requests alone (limits, which make Guaranteed, are not known here)."""
    asks = any(requests.get(name, 0) > 0 for requests in containers for name in ("cpu", "memory"))
    return "Burstable" if asks else "BestEffort"
