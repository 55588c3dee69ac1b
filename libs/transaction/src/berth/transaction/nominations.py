"""Nominations: who waits for which node, and who of those that have to leave it is still there (docs/evictions.md).

A nomination holds capacity and quota, but is no claim beside the others: its victims are still charged. Whoever plans
decides against whom it holds (E2). It stands in LEDGER, under the decision key of its pod (E1), or STATE alone shows
it, by the note that its pod carries (E3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from berth.contracts.ledger import Decision, Victim
from berth.contracts.state import Pod, Reservation
from berth.rules.eviction_notes import Nominated, noted_nomination, plans_let_go
from berth.transaction.claims import Claim, Name, of_decision

UNKNOWN_PRIORITY: Final = 2**31 - 1
"""Of a beneficiary that the view does not show yet: nobody is above it."""


class Nomination(NamedTuple):
    """What a beneficiary would take, its priority, and who has to leave for its whole plan.

    A view of pods that is complete through `basis` shows every victim that is still there. `decision` is None where
    STATE alone shows the nomination: then nobody knows the victims but by their marks.
    """

    claim: Claim
    priority: int
    victims: tuple[Victim, ...] = ()
    basis: int = 0
    decision: Decision | None = None

    @property
    def name(self) -> Name:
        """The beneficiary."""
        return self.claim.name


def of_ledger(decision: Decision, seen: Pod | Reservation | None) -> Nomination:
    """The nomination that a decision makes; `seen` is what the view shows under the name of its pod."""
    is_shown = seen is not None and seen.uid == decision.uid
    pods_basis = decision.basis if decision.kind == "pod" else decision.other_basis
    return Nomination(
        of_decision(decision),
        seen.template.priority if seen is not None and is_shown else UNKNOWN_PRIORITY,
        tuple(decision.victims),
        max([pods_basis, *(victim.version for victim in decision.victims)]),
        decision,
    )


def note_of(seen: Pod | Reservation | None) -> Nominated | None:
    """The nomination that an object carries, if it waits and has not let the plan go.

    Annotations may be anybody's: of a pod the note counts only where `status.nominatedNodeName`, which users do not
    write, says the same.
    """
    if seen is None or seen.node or seen.deleting:
        return None
    annotations = seen.template.annotations if isinstance(seen, Pod) else seen.annotations
    note = noted_nomination(annotations)
    if note is None or note.plan in plans_let_go(annotations):
        return None
    if isinstance(seen, Pod) and seen.nominated != note.node:
        return None
    return note


class Nominations:
    """All that stand, by name and by node."""

    def __init__(self) -> None:
        self._by_name: dict[Name, Nomination] = {}
        self._on: dict[str, dict[Name, Nomination]] = {}

    def set(self, name: Name, nomination: Nomination | None) -> Nomination | None:
        """What stands under a name from now on; what stood there."""
        old = self._by_name.pop(name, None)
        if old is not None:
            there = self._on[old.claim.node]
            del there[name]
            if not there:
                del self._on[old.claim.node]
        if nomination is not None:
            self._by_name[name] = nomination
            self._on.setdefault(nomination.claim.node, {})[name] = nomination
        return old

    def of(self, name: Name) -> Nomination | None:
        """The nomination of a pod or Reservation."""
        return self._by_name.get(name)

    def on(self, node: str) -> Iterable[Nomination]:
        """Those to a node."""
        return self._on.get(node, {}).values()

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._by_name.values())


def remaining(nomination: Nomination, pods: Mapping[Name, Pod], through: int, ended: frozenset[str]) -> list[Victim]:
    """The victims that have not left (E1), as a view of pods shows it that is complete through a version.

    `ended` are the phases of pods that hold nothing any more. A late view may not show a victim that is there.
    """
    is_late = through < nomination.basis
    found = []
    for victim in nomination.victims:
        seen = pods.get((victim.namespace, victim.name))
        if seen is not None and seen.uid == victim.uid:
            if seen.phase not in ended:
                found.append(victim)
        elif is_late:
            found.append(victim)
    return found


def staying(victims: Iterable[Victim], pods: Mapping[Name, Pod]) -> list[Victim]:
    """Of those that have not left, who is not leaving either; who is not shown counts as staying."""
    found = []
    for victim in victims:
        seen = pods.get((victim.namespace, victim.name))
        if seen is None or seen.uid != victim.uid or not seen.deleting:
            found.append(victim)
    return found
