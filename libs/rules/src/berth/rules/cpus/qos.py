"""QoS class and priority class of a pod, as Koordinator's protocol has them.

Labels say both; what they leave open follows from Kubernetes' own QoS class and from the priority. Case counts, and a
text that is none of the known ones says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.names import CPU, LABEL_PRIORITY_CLASS, LABEL_QOS, MEMORY
from berth.resources.amounts import Amounts

LSE: Final = "LSE"
"""CPUs of its own, which not even best-effort pods use."""
LSR: Final = "LSR"
"""CPUs of its own, whose idle time best-effort pods use."""
LS: Final = "LS"
"""CPUs shared with others of its class."""
BE: Final = "BE"
"""Best effort: what others leave."""
SYSTEM: Final = "SYSTEM"
"""System pods."""
QOS_CLASSES: Final = frozenset({LSE, LSR, LS, BE, SYSTEM})

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
KUBE_QOS_CLASSES: Final = frozenset({GUARANTEED, BURSTABLE, BEST_EFFORT})
_OF_KUBE_QOS: Final = {GUARANTEED: LSR, BURSTABLE: LS, BEST_EFFORT: BE}

PROD: Final = "koord-prod"
MID: Final = "koord-mid"
BATCH: Final = "koord-batch"
FREE: Final = "koord-free"
PRIORITY_CLASSES: Final = frozenset({PROD, MID, BATCH, FREE})
_RANGES: Final = ((PROD, 9000, 9999), (MID, 7000, 7999), (BATCH, 5000, 5999), (FREE, 3000, 3999))
_OF_QOS: Final = {SYSTEM: PROD, LSE: PROD, LSR: PROD, LS: PROD, BE: BATCH}


class ContainerSize(NamedTuple):
    """Requests and limits of one container."""

    requests: Amounts
    limits: Amounts


def qos_class(labels: Mapping[str, str]) -> str:
    """The QoS class that the label says; empty: none."""
    text = labels.get(LABEL_QOS, "")
    return text if text in QOS_CLASSES else ""


def qos_class_or_default(labels: Mapping[str, str], kube_qos: str) -> str:
    """The QoS class of the label, else the one that stands for Kubernetes' own; empty where that is unknown too."""
    return qos_class(labels) or _OF_KUBE_QOS.get(kube_qos, "")


def priority_class(labels: Mapping[str, str], priority: int | None) -> str:
    """The priority class of the label, whatever it says, else the one whose range the priority is in; empty: none."""
    text = labels.get(LABEL_PRIORITY_CLASS)
    if text is not None:
        return text if text in PRIORITY_CLASSES else ""
    return next((name for name, low, high in _RANGES if priority is not None and low <= priority <= high), "")


def priority_class_or_default(labels: Mapping[str, str], priority: int | None, kube_qos: str) -> str:
    """The priority class, else the one that goes with the QoS class; empty where there is none either."""
    return priority_class(labels, priority) or _OF_QOS.get(qos_class_or_default(labels, kube_qos), "")


def kube_qos_class(containers: Iterable[ContainerSize]) -> str:
    """Kubernetes' QoS class, from cpu and memory of all containers, init containers among them.

    A container that names a limit and no request requests its limit, as the API server has it.
    """
    is_guaranteed, is_empty = True, True
    for each in containers:
        for name in (CPU, MEMORY):
            limit = each.limits.get(name, 0)
            request = each.requests.get(name, limit)
            is_empty = is_empty and request <= 0 and limit <= 0
            is_guaranteed = is_guaranteed and limit > 0 and request == limit
    if is_empty:
        return BEST_EFFORT
    return GUARANTEED if is_guaranteed else BURSTABLE
