"""Whether a refusal is news to its pod, and whether it takes a nomination back."""

from __future__ import annotations

from berth.contracts import kube
from berth.contracts.command import RefusePod
from berth.contracts.ledger import Decision
from berth.rules.eviction_notes import noted_nomination


def says(pod: kube.Pod, command: RefusePod) -> bool:
    """Whether the pod carries this refusal already."""
    conditions = pod.status.conditions or []
    return any(
        each.type == "PodScheduled" and each.status == "False" and each.message == command.message
        for each in conditions
    )


def lets_go(pod: kube.Pod, command: RefusePod, decision: Decision | None) -> bool:
    """Whether the pod carries the nomination that it is to let go, and nobody carries that out. `decision`: the open
    one of the pod."""
    if not command.lets_go or not pod.status.nominated_node_name:
        return False
    note = noted_nomination(pod.metadata.annotations or {})
    if note is None or note.plan != command.lets_go:
        return False
    return decision is None or not decision.nominates
