"""Who may borrow the idle capacity of Reservations: pods that say so, and that its owners may make leave."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import names
from berth.contracts.state import Pod
from berth.rules.gang_config import gang_of_pod
from berth.rules.preemption import PROTECTING, why_protected


def ignores_reservations(labels: Mapping[str, str]) -> bool:
    """Whether a pod asks to fill what is reserved and idle; any other value of the label says no."""
    return labels.get(names.LABEL_RESERVATION_IGNORED) == "true"


def why_no_borrower(labels: Mapping[str, str]) -> str:
    """Why a pod with these labels borrows nothing of anybody; empty: it may."""
    if not ignores_reservations(labels):
        return "does not ask to borrow"
    label = next((label for label, value in PROTECTING if labels.get(label) == value), "")
    return f"is protected: label {label}" if label else ""


def why_not_lent(pod: Pod, reservation_priority: int) -> str:
    """Why a Reservation of this priority lends nothing to a pod; empty: it may."""
    if not ignores_reservations(pod.template.labels):
        return "it does not ask to borrow"
    if gang_of_pod(pod.namespace, pod.template.labels, pod.template.annotations) is not None:
        return "it belongs to a gang"
    if protected := why_protected(pod):
        return f"it is protected: {protected}"
    if pod.template.priority >= reservation_priority:
        return "it is not of lower priority"
    return ""
