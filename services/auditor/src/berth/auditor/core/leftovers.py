"""Decisions that stay though nothing is left that they could be for: nobody tidies the ledger, or nobody can."""

from __future__ import annotations

from collections.abc import Iterator

from berth.invariants import Finding, World


def left_behind(world: World) -> Iterator[Finding]:
    """Decisions of which the pod, or the Reservation, with that uid is not there."""
    pods = {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in world.pods}
    reservations = {("", each.metadata.name): each.metadata.uid for each in world.reservations}
    for name, held in sorted(world.ledger.decisions.items()):
        decision = held.decision
        if (pods if name[0] else reservations).get(name) != decision.uid:
            text = "/".join(name) if name[0] else f"reservation {name[1]}"
            there = f"uid {decision.uid} is gone or has ended"
            yield Finding(text, f"{text}: the decision of plan {decision.plan} for {decision.node} stays, {there}")
