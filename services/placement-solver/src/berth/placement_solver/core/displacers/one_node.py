"""One pod on one node: who of those that may leave it has to, so that the pod fits.

Whether it fits once some have left is what every constraint says under that hypothesis. Beside the victims, lower pods'
nominations to the node may give way (E2). While a pod is looked at, the columns are charged with the nominations that
it has to heed, and with no other; what is counted of other pods is not (`core.nominated`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.displacers.seam import Ground
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.registry import Asked
from berth.placement_solver.core.seams import Depends, Hypothesis, Rejection, RowArray, Target
from berth.rules import preemption
from berth.transaction.book import Book
from berth.transaction.claims import Claim, freed_by, name_of
from berth.transaction.nominations import Nomination


class Holder(NamedTuple):
    """A bound pod with what it takes."""

    pod: Pod
    claim: Claim


MayLeave: TypeAlias = "Callable[[Sequence[Holder]], list[Pod]]"
"""Of the holders of a node those that may be made to leave it, in the order in which they are put back."""


class Displacement(NamedTuple):
    """Where the pod could go once `victims` (most important first) have left and `displaced` nominations gave way.

    `target` is the node under that hypothesis; `violations` counts the victims that a disruption budget protects.
    """

    target: Target
    victims: tuple[Pod, ...]
    displaced: tuple[Nomination, ...] = ()
    violations: int = 0


class Search(NamedTuple):
    """What is looked for: a place for a pod or Reservation, of which `asked` is what constraints say.

    `refused` are the uids of those whom the API server did not let go for it of late; `now_s` is unix time: who should
    have left long before is not chosen again (E7).
    """

    ground: Ground
    pod: Pod | Reservation
    asked: Sequence[Asked]
    budgets: preemption.Budgets
    may_leave: MayLeave
    refused: Collection[str]
    now_s: float


def on_nodes(
    search: Search, rows: RowArray, offset: int, wanted: int
) -> tuple[dict[str, Displacement], Mapping[str, int]]:
    """What would have to leave each of some nodes, until `wanted` are found, one of them without a protected victim;
    and for which reasons others do not help, by how many. Nodes are tried from the `offset`-th on."""
    found: dict[str, Displacement] = {}
    reasons: Counter[str] = Counter()
    is_gentle = False
    for row in np.roll(rows, -offset % rows.size if rows.size else 0).tolist():
        proposal = OneNode(search, row).victims()
        if isinstance(proposal, Displacement):
            found[search.ground.nodes.names[row]] = proposal
            is_gentle = is_gentle or not proposal.violations
            if len(found) >= wanted and is_gentle:
                break
        else:
            reasons.update(proposal.reasons)
    return found, reasons


class OneNode:
    """One pod on one node, while the columns are charged with what it has to heed."""

    def __init__(self, search: Search, row: int) -> None:
        ground, pod = search.ground, search.pod
        self._pod = pod
        self._asked = search.asked
        self._row = row
        self._budgets = search.budgets
        self._book = ground.book
        self._node = ground.nodes.names[row]
        self._unheeded: list[Claim] = []
        self._held: list[Claim] = []
        self._lower: list[Nomination] = []
        for each in ground.nominated.on(self._node):
            is_lower = each.priority < pod.template.priority
            if each.name == name_of(pod) or (is_lower and each.decision is None):
                self._unheeded.append(each.claim)
            elif is_lower:
                self._lower.append(each)
            else:
                self._held.append(each.claim)
        self._claims: dict[str, Claim] = {}
        holders: list[Pod] = []
        for claim in self._book.claims_on(self._node):
            holder = self._book.pods.get(claim.name)
            # Who draws on a reservation stays: its capacity is the reservation's.
            if holder is None or not claim.is_bound or claim.reservation:
                continue
            if holder.uid in search.refused or preemption.never_leaves(holder, search.now_s):
                continue
            holders.append(holder)
            self._claims[holder.uid] = claim
        self._potential = search.may_leave([Holder(each, self._claims[each.uid]) for each in holders])

    def victims(self) -> Displacement | Rejection:
        """Who has to leave; or why it does not help that all lower ones do."""
        yielding = [each for each in self._lower if self._gives_way(each, self._potential)]
        if not self._potential and not yielding:
            return Rejection((preemption.NO_VICTIMS,), resolvable=False)
        found = self._choose(yielding)
        if isinstance(found, Displacement):
            leaving = [each for each in found.displaced if not self._gives_way(each, found.victims)]
            if not leaving:
                return found
            found = self._choose([each for each in yielding if each not in leaving])
            if isinstance(found, Displacement) and any(not self._gives_way(n, found.victims) for n in found.displaced):
                return Rejection((preemption.NO_VICTIMS,), resolvable=False)
        return found

    def could_fit(self) -> bool:
        """Whether it fits when every lower pod, and every lower nomination, is gone."""
        return self._rejection(self._potential, [each.claim for each in self._lower]) is None

    def _gives_way(self, nomination: Nomination, victims: Iterable[Pod]) -> bool:
        """Whether all its other victims have left or are leaving (E2)."""
        mine = {victim.uid for victim in victims}
        return all(victim.uid in mine for victim in self._book.staying_victims(nomination))

    def _choose(self, yielding: Sequence[Nomination]) -> Displacement | Rejection:
        given = [each.claim for each in yielding]

        def fits(gone: Collection[Pod]) -> bool:
            return self._rejection(gone, given) is None

        chosen = preemption.victims_on(self._node, self._potential, self._budgets, fits)
        if chosen is None:
            return self._rejection(self._potential, given) or Rejection((preemption.NOT_HELPFUL,))
        # Of the nominations, too, those that can stay do, the more important first.
        for each in sorted(yielding, key=lambda nomination: (-nomination.priority, nomination.name)):
            rest = [claim for claim in given if claim is not each.claim]
            if self._rejection(chosen.victims, rest) is None:
                given = rest
        displaced = tuple(each for each in yielding if any(each.claim is claim for claim in given))
        if not chosen.victims and not displaced:
            # It fits as it is: nothing has to be made free for it.
            return Rejection((preemption.NOT_HELPFUL,))
        # Later the columns are charged with all nominations again.
        hypothesis = self._hypothesis(chosen.victims, (*given, *self._unheeded))
        return Displacement(Target(self._row, hypothesis), chosen.victims, displaced, chosen.violations)

    def _hypothesis(self, gone: Iterable[Pod], given: Sequence[Claim]) -> Hypothesis:
        return Hypothesis(gone=(*self._freed(gone), *given))

    def _freed(self, gone: Iterable[Pod]) -> tuple[Claim, ...]:
        """What they borrow of Reservations falls back to those."""
        return tuple(freed_by(self._claims[each.uid]) for each in gone)

    def _rejection(self, gone: Iterable[Pod], given: Sequence[Claim]) -> Rejection | None:
        """With the nominations of equal and higher pods, and without them: both have to let the pod in."""
        charged = self._hypothesis(gone, given)
        counted = Hypothesis(gone=tuple(self._claims[each.uid] for each in gone), there=tuple(self._held))
        found = self._first_rejection(charged, counted)
        if found is None and self._held:
            without = charged._replace(gone=(*charged.gone, *self._held))
            found = self._first_rejection(without, counted._replace(there=()))
        return found

    def _first_rejection(self, charged: Hypothesis, counted: Hypothesis) -> Rejection | None:
        """Nominations are charged, but not counted among the pods of the cluster."""
        for constraint, query in self._asked:
            hypothesis = counted if Depends.PEERS in constraint.depends else charged
            rejection = constraint.filter(query, Target(self._row, hypothesis))
            if rejection is not None:
                return rejection
        return None


def about_to_leave(book: Book) -> Iterator[Pod]:
    """The victims of standing nominations, as far as they are there: budgets are spent on them."""
    for nomination in book.nominations:
        for victim in book.remaining_victims(nomination):
            pod = book.pods.get((victim.namespace, victim.name))
            if pod is not None and pod.uid == victim.uid:
                yield pod


def helpful_rows(asked: Iterable[Asked], nodes: Nodes) -> RowArray:
    """The nodes whose first rejecting constraint says that it may help when others leave."""
    rows = np.flatnonzero(nodes.alive[: len(nodes)])
    helpful: list[RowArray] = []
    for constraint, query in asked:
        rejected = np.zeros(rows.shape, np.bool_)
        hopeless = np.zeros(rows.shape, np.bool_)
        for each in constraint.rejections(query, rows):
            rejected |= each.rows
            if not each.resolvable:
                hopeless |= each.rows
        helpful.append(rows[rejected & ~hopeless])
        rows = rows[~rejected]
    return np.sort(np.concatenate(helpful)) if helpful else rows[:0]
