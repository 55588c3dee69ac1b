"""Reservations that are placed and ask for more: what each would come to hold on its node, or why it does not.

A Reservation grows where it is, in amounts alone. What it takes beyond what it keeps now has to pass every constraint
that a pod of its template would, on that one node; the pods that use it stay, and nobody leaves for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from berth.contracts.base import Reason
from berth.contracts.ledger import PlanStatus
from berth.contracts.state import Reservation
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.reasons import invalid, refusals_of
from berth.placement_solver.core.registry import Registry
from berth.placement_solver.core.seams import Hypothesis, Rejection, Spec, Target
from berth.resources.amounts import Amounts
from berth.rules.reservation_inner import kept_of
from berth.rules.reservation_resize import growth_asked, why_not_growing
from berth.rules.reservation_take_over import TAKE_OVER
from berth.transaction.book import Book
from berth.transaction.claims import Claim, Name, drawn_from, of_reservation

AVAILABLE: Final = "Available"
CODE: Final = "growth"
GONE: Final = Reason(code=CODE, message="its node is not there, so it does not grow")
GIVEN: Final = Reason(code=CODE, message="would be granted something of its own on its node, so it does not grow")


class Growths:
    """Those of a view."""

    def __init__(self, nodes: Nodes, book: Book, registry_of: Callable[[str], Registry]) -> None:
        self.asking: dict[Name, Reservation] = {}
        self._nodes = nodes
        self._book = book
        self._registry_of = registry_of

    def see(self, name: Name, reservation: Reservation | None) -> None:
        """A Reservation was written or, with None, deleted."""
        if reservation is not None and asks(reservation):
            self.asking[name] = reservation
        else:
            self.asking.pop(name, None)

    def is_free(self, reservation: Reservation) -> bool:
        """Its last decision was carried out, or is over."""
        held = self._book.ledger.decisions.get(("", reservation.name))
        if held is None or held.decision.plan == reservation.plan or self._book.is_settled(held.decision):
            return held is None or self._book.ledger.plan_status(held.decision.plan) is not PlanStatus.OPEN
        return False

    def place(self, reservation: Reservation, plan: str) -> Claim | Reason:
        """The claim of the Reservation once it has grown, or why it does not."""
        nodes, name = self._nodes, ("", reservation.name)
        mine = of_reservation(reservation)
        why = why_not_growing(mine.grants, takes_over=takes_over(reservation, self._book))
        if why is not None:
            return invalid(why)
        row = nodes.rows.get(reservation.node)
        if row is None or not nodes.alive[row]:
            return GONE
        more = growth_asked(reservation.annotations, reservation.allocatable)
        grown = mine._replace(amounts={**mine.amounts, **more}, plan=plan, is_bound=False)
        template = replace(reservation.template, requests=_beyond(mine, grown, self._book.claims_on(reservation.node)))
        registry = self._registry_of(template.scheduler)
        compiled = registry.compile_class(Spec(name, reservation.namespace, reservation.uid, template))
        if refusals := refusals_of(compiled):
            return refusals[0]
        # It has its place among the pods of the node.
        target = Target(row, Hypothesis(gone=(Claim(name, reservation.uid, reservation.node, {}),)))
        for constraint, query in registry.in_order(compiled.asked):
            if (rejection := constraint.filter(query, target)) is not None:
                return _reason(rejection, reservation.node, more)
        queries = {constraint.name: query for constraint, query in compiled.asked}
        for allocator in registry.allocators:
            if allocator.constraint in queries:
                found = allocator.choose(queries[allocator.constraint], target)
                if isinstance(found, Rejection) or found.grants:
                    return GIVEN
        return grown


def asks(reservation: Reservation) -> bool:
    """Whether it is placed and is to hold more."""
    is_there = bool(reservation.node) and reservation.phase == AVAILABLE and not reservation.deleting
    return is_there and bool(reservation.plan) and bool(growth_asked(reservation.annotations, reservation.allocatable))


def takes_over(reservation: Reservation, book: Book) -> bool:
    """Whether it takes over pods, or the decision that stands for it did."""
    held = book.ledger.decisions.get(("", reservation.name))
    steps = held.decision.before if held is not None and held.decision.uid == reservation.uid else ()
    return reservation.pre_allocation or any(step.action == TAKE_OVER for step in steps)


def _beyond(before: Claim, after: Claim, claims: Iterable[Claim]) -> Amounts:
    """What it keeps on its node beyond what it keeps now."""
    drawn = list(drawn_from(claims, before.uid))
    return {name: amount for name, amount in _differences(before, after, drawn) if amount > 0}


def _differences(before: Claim, after: Claim, drawn: list[Claim]) -> Iterator[tuple[str, int]]:
    for name, amount in after.amounts.items():
        used, inner = sum(each.amounts.get(name, 0) for each in drawn), before.inner.get(name, 0)
        yield name, kept_of(amount, used, inner) - kept_of(before.amounts.get(name, 0), used, inner)


def _reason(rejection: Rejection, node: str, more: Mapping[str, int]) -> Reason:
    texts = "; ".join(rejection.reasons) or "no capacity"
    return Reason(code=CODE, message=f"cannot grow in {', '.join(sorted(more))} on node {node}: {texts}")
