"""What may forbid a pod a node, piece by piece: each constraint that is asked, and of plain amounts each resource."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.constraints.node_resources_fit import Demand, NodeResourcesFit
from berth.placement_solver.core.nodes import AMOUNT_MAX, PODS, Nodes
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.registry import Asked
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.node_fit import TOO_MANY_PODS

RESOURCES_MAX: Final = 24
"""A pod that asks for more resources than that has them in one piece."""


class Amount(NamedTuple):
    """One resource, and how much of it is asked for. `pods` is a place for one more pod."""

    resource: str
    column: int
    amount: int


class OneAmount:
    """NodeResourcesFit of one resource alone. The query says which."""

    depends = Depends.CAPACITY
    exact = True

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.name = name
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> Amount | Rejection | None:
        """See `Constraint`. It is only made of a query of the whole."""
        return None

    def mask(self, query: Amount, rows: Rows) -> Mask:
        """See `Constraint`."""
        found: Mask = self._nodes.free[query.column, rows] >= query.amount
        return found

    def admits(self, query: Amount, row: int) -> bool:
        """See `Constraint`."""
        return int(self._nodes.free[query.column, row]) >= query.amount

    def filter(self, query: Amount, target: Target) -> Rejection | None:
        """See `Constraint`."""
        gone, there = target.hypothesis
        free = int(self._nodes.free[query.column, target.row])
        for sign, claims in ((1, gone), (-1, there)):
            for claim in claims:
                is_slot = query.column == PODS
                taken = int(not claim.is_reservation) if is_slot else claim.amounts.get(query.resource, 0)
                free += sign * min(taken, AMOUNT_MAX)
        if free >= query.amount:
            return None
        return Rejection((reason_of(query),), lacking={query.resource: query.amount - free})

    def rejections(self, query: Amount, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(reason_of(query), np.logical_not(self.mask(query, rows)))]


class Part(NamedTuple):
    """One piece: `what` says which of its constraint, empty where that is one piece. `of_class`: it is asked of all
    pods of the class."""

    constraint: Any
    query: Any
    what: str
    of_class: bool

    @property
    def code(self) -> str:
        """The name of the constraint."""
        name: str = self.constraint.name
        return name

    @property
    def is_of_capacity(self) -> bool:
        """What it says changes with what is free."""
        return Depends.CAPACITY in self.constraint.depends


def parts_of(candidate: Candidate, nodes: Nodes) -> tuple[Part, ...]:
    """All pieces of what is asked for a candidate, in the order of the registry."""
    rules = candidate.cls.rules
    of_class = {id(each[0]) for each in candidate.cls.asked}
    ordered = rules.in_order((*candidate.cls.asked, *candidate.asked))
    return tuple(part for each in ordered for part in _pieces(each, nodes, of_class=id(each[0]) in of_class))


def _pieces(asked: Asked, nodes: Nodes, *, of_class: bool) -> Iterator[Part]:
    constraint, query = asked
    if not isinstance(constraint, NodeResourcesFit) or len(query.wants) > RESOURCES_MAX:
        yield Part(constraint, query, "", of_class)
        return
    one = OneAmount(nodes, constraint.name)
    yield Part(one, Amount(names.PODS, PODS, 1), names.PODS, of_class)
    for (column, amount), resource in zip(query.wants, query.amounts, strict=True):
        yield Part(one, Amount(resource, column, amount), resource, of_class)


def reason_of(query: Amount) -> str:
    """As kube-scheduler words it."""
    return TOO_MANY_PODS if query.column == PODS else f"Insufficient {query.resource}"


def words_of(part: Part, rows: RowArray) -> str:
    """The most frequent reason of a piece, in the words of its constraint; empty where it forbids none of the rows."""
    if not rows.size:
        return ""
    told = part.constraint.rejections(part.query, rows)
    best = max(told, key=lambda each: int(np.count_nonzero(each.rows)), default=None)
    if best is not None and best.rows.any():
        return str(best.reason)
    rejection = part.constraint.filter(part.query, Target(int(rows[0])))
    return str(rejection.reasons[0]) if rejection is not None else ""


class Relaxed:
    """Candidates of whom nothing is asked but some pieces, by constraint and what of it; no quota pays for them.

    Those of one class share what is worked out for each node.
    """

    def __init__(self, kept: Collection[tuple[str, str]]) -> None:
        self._kept = kept
        self._made: dict[int, PodClass] = {}

    def of(self, candidate: Candidate, parts: Sequence[Part]) -> Candidate:
        """This one; `parts` are all pieces of what is asked for it."""
        left = [part for part in parts if (part.code, part.what) in self._kept]
        made = self._made.get(candidate.cls.index)
        if made is None:
            made = self._made[candidate.cls.index] = _relaxed(
                candidate.cls, tuple((part.constraint, part.query) for part in left if part.of_class)
            )
        of_pod = tuple((part.constraint, part.query) for part in left if not part.of_class)
        return candidate._replace(cls=made, asked=of_pod, refusals=(), quota=None, wish=None)


def _relaxed(cls: PodClass, asked: tuple[Asked, ...]) -> PodClass:
    names_left = {constraint.name for constraint, _ in asked}
    return PodClass(
        index=-1,
        template=cls.template,
        requests=cls.requests,
        rules=cls.rules,
        asked=asked,
        demand=Demand({}, ()),
        want=cls.want if cls.rules.device_share.name in names_left else None,
        chosen=tuple((each, query) for each, query in cls.chosen if each.constraint in names_left),
        ratings=[],
        refusals=[],
    )
