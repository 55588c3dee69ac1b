"""The steps by which a Reservation takes over pods that run: each gets a note of it before it is Available.

A pod that is gone meanwhile has the decision withdrawn: what it held is free, and the Reservation is judged again.
Notes that a withdrawn decision has left stay, and count for nothing: the next decision writes them anew, or takes off
those that it has no use for on its node (`let-go`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.cluster_writer.core.last_check import Clash
from berth.cluster_writer.core.progress import Outcome, Progress, Request
from berth.contracts import names
from berth.contracts.ledger import Decision, Step
from berth.contracts.state import Pod
from berth.kube import resources
from berth.rules.records import registry
from berth.rules.reservation_take_over import LET_GO, TAKE_OVER
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.claims import Name

POD_ACTIONS: Final = frozenset({TAKE_OVER, LET_GO})


def note_step(decision: Decision, place: int, step: Step, pods: Mapping[Name, Pod], asked: int) -> Outcome:
    """Whether the note is written, or taken off, and else the request for it. `asked` is the version that it left."""
    pod = pods.get((step.namespace, step.pod))
    who = f"pod {step.namespace}/{step.pod}"
    is_there = pod is not None and pod.uid == step.pod_uid and pod.phase not in FINISHED_PHASES
    if pod is None or not is_there:
        return Outcome(Progress.REFUSED, f"{who} is gone") if step.action == TAKE_OVER else Outcome(Progress.DONE)
    if step.action == TAKE_OVER and pod.node != decision.node:
        return Outcome(Progress.REFUSED, f"{who} is not on node {decision.node}")
    if pod.version < asked:
        return Outcome(Progress.WAIT, f"{who} is not seen as it was written yet")
    noted = registry.RESERVATION.read(pod.template.annotations)
    if (noted == decision.uid) is (step.action == TAKE_OVER):
        return Outcome(Progress.DONE)
    note = msgspec.json.encode({"name": decision.name, "uid": decision.uid}).decode()
    metadata: dict[str, Any] = {
        "uid": pod.uid,
        "resourceVersion": str(pod.version),
        "annotations": {names.ANNOTATION_RESERVATION_ALLOCATED: note if step.action == TAKE_OVER else None},
    }
    return Outcome(
        Progress.REQUEST, "", Request(resources.PODS, pod.namespace, pod.name, {"metadata": metadata}, place)
    )


def taken_by_another(decision: Decision, book: Book) -> Clash | None:
    """The pod that another Reservation takes over as well, or uses: two decisions on one pod are the sign of a loss."""
    for step in decision.before:
        if step.action != TAKE_OVER:
            continue
        who = f"pod {step.namespace}/{step.pod}"
        for taker in book.take_overs.takers_of(step.pod_uid, decision.node):
            if taker != (decision.namespace, decision.name):
                return Clash(f"{who} is taken over by reservation {taker[1]} as well", is_ours=True)
        for claim in book.claims_of((step.namespace, step.pod)):
            if claim.uid == step.pod_uid and claim.reservation not in ("", decision.uid):
                return Clash(f"{who} draws on another reservation", is_ours=False)
    return None


def owners_after(decision: Decision) -> list[dict[str, str]]:
    """Whom the Reservation shows as its users from the beginning."""
    taken = (step for step in decision.before if step.action == TAKE_OVER)
    return [{"namespace": step.namespace, "name": step.pod, "uid": step.pod_uid} for step in taken]
