"""Pods that must be spread, at the moment of each decision (I17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.ledger import Decision
from berth.invariants.counts import Excuse
from berth.invariants.observer.peers import TAINTS, Look, Peers, Place, Spot
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.topology_spread import SpreadConstraint, SpreadCounts

PROMISE: Final = "I17"
There = tuple[Spot, Place]


class SpreadLaw:
    """Hard spread constraints of the pod that is placed. What becomes of the spread later nobody promises."""

    def __init__(self, peers: Peers, verdicts: Verdicts) -> None:
        self._peers = peers
        self._verdicts = verdicts

    def decided(self, decision: Decision) -> None:
        """A pod is about to hold what was decided."""
        look, place = self._peers.looks.get(decision.uid), self._peers.places.get(decision.node)
        if look is None or place is None or not look.hard:
            return
        nodes = [each for each in self._peers.places.values() if all(one.key in each.labels for one in look.hard)]
        for constraint in look.hard:
            self._judge(decision, look, place, constraint, nodes)

    def _judge(
        self, decision: Decision, look: Look, place: Place, constraint: SpreadConstraint, nodes: list[Place]
    ) -> None:
        peers = self._peers
        others = [each for each in peers.others(decision.uid) if _counts(constraint, look, each[0])]
        unfit = _unfit(constraint, look, place, nodes, others)
        if unfit is None:
            self._verdicts.judged(PROMISE)
            return
        excuse = self._excuse_of(decision, look, place, constraint, nodes, others)
        if excuse is not None:
            self._verdicts.excused(PROMISE, excuse)
            return
        self._verdicts.judged(PROMISE)
        name = f"{decision.namespace}/{decision.name}"
        text = f"is decided for {place.name} in {constraint.key} {place.labels.get(constraint.key)}: {unfit}"
        fellows = ", ".join(f"{spot.text} on {spot.node}" for spot, _ in others)
        evidence = f"{name}: {text}; those who count: {fellows or 'nobody'}"
        self._verdicts.add(PROMISE, f"{name}, plan {decision.plan}", evidence)

    def _excuse_of(
        self,
        decision: Decision,
        look: Look,
        place: Place,
        constraint: SpreadConstraint,
        nodes: list[Place],
        others: list[There],
    ) -> Excuse | None:
        """Why it is held against nobody: the solver may have seen less, or more, than there is."""
        peers = self._peers
        if decision.pod_version < look.version and not peers.knew_look(decision, look):
            return Excuse.OLDER_POD
        moved_s = peers.unseen_change(_keys(look))
        if moved_s is not None:
            return peers.sight.excuse(moved_s)
        there = {spot.uid for spot, _ in others}
        known = [each for each in others if peers.knew(decision, each[0], meets=each[0].look.meets(look))]
        maybe = [each for each in others if each not in known]
        maybe += [
            each
            for each in peers.maybe_there(decision)
            if each[0].uid not in there and _counts(constraint, look, each[0])
        ]
        # Whoever may have been counted or not is where that speaks for the decision: in every domain but its own.
        domain = place.labels.get(constraint.key)
        elsewhere = [each for each in maybe if each[1].labels.get(constraint.key) != domain]
        if not maybe or _unfit(constraint, look, place, nodes, [*known, *elsewhere]) is not None:
            return None
        return peers.why_not(decision, maybe[0][0])


def _unfit(
    constraint: SpreadConstraint, look: Look, place: Place, nodes: Iterable[Place], others: Iterable[There]
) -> str | None:
    counts = SpreadCounts((constraint,), look.incoming, nodes)
    for spot, there in others:
        counts.add(spot.look.peer, there)
    found = counts.unfit(place)
    return found.reason if found is not None else None


def _counts(constraint: SpreadConstraint, look: Look, spot: Spot) -> bool:
    return constraint.counted(spot.look.peer, look.peer.namespace)


def _keys(look: Look) -> set[str] | None:
    """The labels of nodes that decide on which domains there are; None: any of them may."""
    if not look.incoming.rule.unrestricted:
        return None
    keys = {constraint.key for constraint in look.hard}
    if any(constraint.honours_taints for constraint in look.hard):
        keys.add(TAINTS)
    return keys
