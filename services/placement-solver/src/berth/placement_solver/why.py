"""Answers to people: why is this pod where it is, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.contracts.grants import as_devices, granted
from berth.contracts.ledger import Decision
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.explain import shown
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.words import text_of
from berth.placement_solver.why_others import OTHERS, listed_victims
from berth.placement_solver.why_reserved import (
    facts_of,
    holders_of,
    lenders_of,
    of_reservations,
    problems_of,
    steps_of,
    used_by,
)
from berth.rules.times import unix_of
from berth.rules.volume_binding import is_bound
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name


def answer(cluster: ClusterView, question: WhyQuestion) -> WhyAnswer:
    """What this solver knows of a pod, a Reservation (its namespace is empty), a gang, a quota or a node."""
    if question.kind in OTHERS:
        return OTHERS[question.kind](cluster, question)
    if question.kind == "reservations":
        return of_reservations(cluster, question)
    found = _of_pod(cluster, question)
    seen = cluster.book.seen((question.namespace, question.name))
    if not isinstance(seen, Reservation):
        return found
    return msgspec.structs.replace(
        found,
        kind="reservation",
        pods=holders_of(cluster, seen),
        facts=facts_of(cluster, seen),
        problems=problems_of(cluster, seen),
    )


def _of_pod(cluster: ClusterView, question: WhyQuestion) -> WhyAnswer:
    name = (question.namespace, question.name)
    seen = cluster.book.seen(name)
    base = WhyAnswer(namespace=question.namespace, name=question.name, outcome="unknown")
    if seen is None:
        return _with(base, "unknown", "no such object is known")
    waiting = cluster.queue.waiting.get(name)
    held = cluster.book.ledger.decisions.get(name)
    gang = cluster.gangs.gang_of(name)
    mine = cluster.is_mine((cluster.gangs.group_of(gang.id) if gang else "") or seen.uid)
    facts: dict[str, object] = {"mine": mine, "problems": list(seen.problems), "attempts": seen.attempt}
    if not cluster.is_ours(seen):
        return _with(base, "foreign", f"scheduler name {seen.template.scheduler!r} is not one of ours", **facts)
    if seen.node:
        claim = next((claim for claim in cluster.book.claims_of(name) if claim.uid == seen.uid), None)
        facts.update(node=seen.node, plan=seen.plan)
        if claim is not None:
            facts.update(devices=as_devices(claim.grants), grants=list(claim.grants), quota=claim.quota)
            facts.update(reservation=used_by(cluster, claim))
        if held is not None and held.decision.uid == seen.uid:
            facts.update(
                reservation=facts.get("reservation") or held.decision.reservation,
                gang=held.decision.gang.name if held.decision.gang else "",
            )
        facts.update(facts=lenders_of(cluster, name))
        ended = seen.phase in FINISHED_PHASES
        heirs = ", ".join(map(text_of, sorted(cluster.beneficiaries.of(name, cluster.book))))
        more = ", and has ended" if ended else f", and is to leave for {heirs}" if heirs else ""
        return _with(base, "bound", f"bound to {seen.node}{more}", **facts)
    if seen.deleting or seen.phase in FINISHED_PHASES:
        return _with(base, "waiting", "it is being deleted, or has ended, without a node", **facts)
    if seen.template.gates:
        return _with(base, "waiting", f"held by scheduling gates: {', '.join(seen.template.gates)}", **facts)
    decision = cluster.book.open_decision(name)
    if decision is not None:
        facts.update(node=decision.node, plan=decision.plan, quota=decision.quota, reservation=decision.reservation)
        grants = granted(decision.allocation)
        facts.update(devices=as_devices(grants), grants=list(grants))
        facts.update(gang=decision.gang.name if decision.gang else "")
        if decision.nominates:
            return _with(base, "waiting", _nominated(cluster, name, decision), **facts)
        waits = "; ".join([f"decided for {decision.node}, waiting for the bind", *_steps_left(cluster, decision)])
        return _with(base, "decided", waits, **facts)
    if isinstance(seen, Pod):
        facts.update(quota="/".join(cluster.payers.of(seen) or ()))
    if waiting is None:
        return _with(
            base, "waiting", "this solver is about to look at it" if mine else "another solver decides it", **facts
        )
    facts.update(gang=waiting.group, reasons=shown(waiting.reasons), explanation=waiting.explanation)
    facts.update(waiting_since_ms=_since_ms(seen, waiting), before=cluster.queue.position(waiting))
    facts.update(
        facts={what: said for each in cluster.candidates([name]) for what, said in steps_of(cluster, each).items()}
    )
    if waiting.reasons:
        outcome = "waiting" if waiting.held or waiting.tries == 0 else "refused"
        return _with(base, outcome, waiting.message, **facts)
    return _with(base, "waiting", "in the queue", **facts)


def _since_ms(seen: Pod | Reservation, waiting: Waiting) -> int:
    """Since its object was made, as far as that is known; else since this solver has seen it."""
    created_s = unix_of(seen.created) if seen.created else None
    return int(created_s * 1000) if created_s is not None else waiting.seen_ms


def _nominated(cluster: ClusterView, name: Name, decision: Decision) -> str:
    """Who has still to leave the node that the object is nominated to."""
    nomination = cluster.book.nominations.of(name)
    remaining = cluster.book.remaining_victims(nomination) if nomination is not None else []
    if not remaining:
        return f"nominated to {decision.node}, which its victims have left"
    listed = listed_victims([f"{victim.namespace}/{victim.name}" for victim in remaining])
    where = "leave it" if all(victim.node == decision.node for victim in remaining) else "leave"
    return f"nominated to {decision.node}, waiting for {listed} to {where}"


def _steps_left(cluster: ClusterView, decision: Decision) -> Iterator[str]:
    """What has to happen before the bind, and has not yet."""
    for step in decision.before:
        if step.pod:
            continue  # written at once, or the decision is withdrawn
        claim = cluster.storage.claim((decision.namespace, step.claim))
        if claim is None or not is_bound(claim):
            volume = f"volume {step.volume}" if step.volume else "the volume that is provisioned for it"
            yield f"claim {step.claim} is to be bound to {volume}"


def _with(base: WhyAnswer, outcome: str, message: str, **facts: object) -> WhyAnswer:
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    return WhyAnswer(**{**fields, "outcome": outcome, "message": message, **facts})
