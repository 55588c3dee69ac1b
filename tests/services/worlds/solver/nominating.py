"""Nominations as a solver would have written them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, Decision, Plan, PlanStatus, Step, Victim
from berth.contracts.state import Pod


def nominate(
    run: Any, name: str, node: str, cpu: int, leaving: Iterable[Pod] = (), before: Sequence[Step] = ()
) -> Decision:
    """A committed nomination of a pod that was seen: so many cores of the node, which `leaving` have to leave, and the
    steps before its bind."""
    waits = run.cluster.book.pods["default", name]
    decision = Decision(
        plan=f"plan-{name}",
        namespace="default",
        name=name,
        uid=waits.uid,
        attempt=waits.attempt,
        node=node,
        pod_version=waits.version,
        basis=run.version,
        allocation=Allocation(amounts={names.CPU: cpu * 1000}),
        before=list(before),
        nominates=True,
        victims=[
            Victim(namespace=each.namespace, name=each.name, uid=each.uid, version=each.version, node=node)
            for each in leaving
        ],
    )
    run.ledger.append(subjects.decision_key(1, "default", name), encode(decision))
    committed = Plan(id=decision.plan, status=PlanStatus.COMMITTED)
    run.ledger.append(subjects.plan_key(1, decision.plan), encode(committed))
    run.deliver()
    return decision
