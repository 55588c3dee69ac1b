"""Which constraints forbid one pod which nodes: a set of bits for each node, and for each reservation it might draw on.

What rules out every node at once (what the pod says, a quota group) is a bit of every set. Where a mask lets more
through than the exact check does, that is asked as well: of every node that has no bit yet, and of so many others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts.state import Pod
from berth.placement_solver.core.borrowing import lenders
from berth.placement_solver.core.explanation.parts import Part, parts_of, words_of
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.quota_limits import Over
from berth.placement_solver.core.reserved_choice import usable
from berth.placement_solver.core.seams import Depends, Hypothesis, Rejection, RowArray, Target
from berth.placement_solver.core.solve import Solver

EXACT_MAX: Final = 512
"""So many nodes that a mask lets through are asked exactly, those with the fewest bits first."""
BITS_MAX: Final = 62
QUOTA: Final = "quota"
RESERVATION: Final = "reservation"

Bits = npt.NDArray[np.int64]


class Element(NamedTuple):
    """Something that forbids: the name of a constraint, `quota`, ...; `what` of it: a resource, a group; in words."""

    code: str
    what: str
    message: str


class Forbids(NamedTuple):
    """`sets` are all the sets of bits there are; bit `n` is `elements[n]`. `rows` and `bits` are those of the nodes.

    `part_bits` are the bits of `parts`, in their order; `is_exact`: no constraint was asked less than it could be.
    """

    elements: tuple[Element, ...]
    sets: frozenset[int]
    parts: tuple[Part, ...]
    part_bits: tuple[int, ...]
    rows: RowArray
    bits: Bits
    is_exact: bool


def forbids_of(candidate: Candidate, solver: Solver) -> Forbids:
    """All that forbids this candidate something, with all that is charged. Its own nomination must not be."""
    nodes = solver.nodes
    rows = np.flatnonzero(nodes.alive[: len(nodes)])
    everywhere = [*_refusals(candidate), *quota_elements(exceeded(candidate, solver))]
    parts = parts_of(candidate, nodes)
    reserved = 1 << len(everywhere) if candidate.wish is not None else 0
    elements = [*everywhere, *([Element(RESERVATION, "", "")] if reserved else [])]
    first = len(elements)
    parts = parts[: BITS_MAX - first]
    part_bits = tuple(1 << (first + index) for index in range(len(parts)))
    bits = np.full(rows.shape, (1 << len(everywhere)) - 1, np.int64)
    if candidate.wish is not None and (candidate.wish.must or candidate.wish.problem is not None):
        bits |= reserved
    for part, bit in zip(parts, part_bits, strict=True):
        bits[~part.constraint.mask(part.query, rows)] |= bit
    is_exact = _ask_exactly(candidate, solver, parts, part_bits, rows, bits)
    sets: set[int] = set(bits.tolist())
    base = (1 << len(everywhere)) - 1
    sets |= {base | each for each in _elsewhere(candidate, solver, parts, part_bits, reserved)}
    elements += [
        Element(part.code, part.what, words_of(part, rows[(bits & bit) != 0]))
        for part, bit in zip(parts, part_bits, strict=True)
    ]
    if reserved:
        elements[first - 1] = _reservation_element(candidate, solver)
    return Forbids(tuple(elements), frozenset(sets), parts, part_bits, rows, bits, is_exact)


def exceeded(candidate: Candidate, solver: Solver, times: int = 1) -> list[Over]:
    """The limits of quota that so many like it would exceed."""
    if candidate.quota is None:
        return []
    amounts = {name: times * amount for name, amount in candidate.charged.items()}
    return solver.capacity.quotas.exceeded(candidate.quota, amounts, non_preemptible=candidate.non_preemptible)


def quota_elements(over: Iterable[Over]) -> list[Element]:
    """One for each group."""
    found: dict[str, Element] = {}
    for each in over:
        found.setdefault(each.group.name, Element(QUOTA, each.group.name, each.message))
    return list(found.values())


def _refusals(candidate: Candidate) -> Iterator[Element]:
    """What rules out every node."""
    for reason in (*candidate.cls.refusals, *candidate.refusals):
        yield Element(reason.code, reason.field, reason.message)
    # A group of which not all that are above it are known is charged nothing.


def _ask_exactly(
    candidate: Candidate,
    solver: Solver,
    parts: Sequence[Part],
    part_bits: Sequence[int],
    rows: RowArray,
    bits: Bits,
) -> bool:
    """Add what the exact checks say; whether all were asked."""
    inexact = [(part, bit) for part, bit in zip(parts, part_bits, strict=True) if not part.constraint.exact]
    is_exact = True
    for part, bit in inexact:
        open_ = np.flatnonzero((bits & bit) == 0)
        open_ = open_[np.argsort(_counted(bits[open_]), kind="stable")]
        asked = max(EXACT_MAX, int(np.count_nonzero(bits[open_] == 0)))
        is_exact &= open_.size <= asked
        for index in open_[:asked].tolist():
            if part.constraint.filter(part.query, Target(int(rows[index]))) is not None:
                bits[index] |= bit
    _ask_beside_nominated(candidate, solver, parts, part_bits, rows, bits)
    for index in np.flatnonzero(bits == 0).tolist():
        bits[index] |= _not_chosen(candidate, parts, part_bits, Target(int(rows[index])))
    return is_exact


def _ask_beside_nominated(
    candidate: Candidate,
    solver: Solver,
    parts: Sequence[Part],
    part_bits: Sequence[int],
    rows: RowArray,
    bits: Bits,
) -> None:
    """What pods of equal or higher priority that are nominated to a node say of others there."""
    nominated, nodes = solver.capacity.nominated, solver.nodes
    of_peers = [
        (part, bit)
        for part, bit in zip(parts, part_bits, strict=True)
        if not part.of_class and Depends.PEERS in part.constraint.depends
    ]
    if not of_peers or not nominated:
        return
    priority = candidate.object.template.priority
    for index, row in enumerate(rows.tolist()):
        there = tuple(
            each.claim
            for each in nominated.on(nodes.names[row])
            if each.priority >= priority and each.name != candidate.name
        )
        for part, bit in of_peers if there else ():
            if part.constraint.filter(part.query, Target(row, Hypothesis(there=there))) is not None:
                bits[index] |= bit


def _not_chosen(candidate: Candidate, parts: Sequence[Part], part_bits: Sequence[int], target: Target) -> int:
    """The bit of the constraint whose things cannot be chosen on a node that nothing else forbids."""
    for allocator, query in candidate.cls.chosen:
        found = allocator.choose(query, target)
        if isinstance(found, Rejection):
            codes = [bit for part, bit in zip(parts, part_bits, strict=True) if part.code == allocator.constraint]
            return codes[0] if codes else 0
        if found.zones is not None:
            target = target._replace(zones=found.zones)
    return 0


def _elsewhere(
    candidate: Candidate, solver: Solver, parts: Sequence[Part], part_bits: Sequence[int], reservation: int
) -> Iterator[int]:
    """What forbids it the reservations that it may draw on, and what is reserved and idle."""
    wish, nodes = candidate.wish, solver.nodes

    def asked(target: Target) -> int:
        found = 0
        for part, bit in zip(parts, part_bits, strict=True):
            if part.constraint.filter(part.query, target) is not None:
                found |= bit
        return found

    if wish is not None and wish.problem is None and solver.reservations.known:
        matching = solver.reservations.matching(wish, solver.capacity)
        offers = usable(wish, matching, nodes, candidate.cls.rules.reservation_ignored).best_first
        for offer in offers:
            holder = offer.holder
            row = nodes.row(holder.claim.node)
            if nodes.alive[row]:
                hypothesis = Hypothesis(gone=(holder.offered,))
                target = Target(row, hypothesis, holder.claim.uid, holder.claim.grants, offer.tracked)
                yield asked(target) or reservation
    elif wish is None and isinstance(candidate.object, Pod) and solver.reservations.known:
        lending = solver.reservations.lending(solver.capacity)
        for lender in lenders(candidate.object, candidate.cls.requests, lending, nodes):
            found = asked(Target(lender.row, Hypothesis(gone=lender.idle)))
            if found:
                yield found


def _reservation_element(candidate: Candidate, solver: Solver) -> Element:
    wish = candidate.wish
    if wish is None or wish.problem is not None:
        problem = wish.problem if wish is not None else None
        return Element(RESERVATION, "", f"{problem.field}: {problem.message}" if problem is not None else "")
    matching = solver.reservations.matching(wish, solver.capacity)
    text = solver.reservations.no_match(wish, solver.capacity).message
    return Element(RESERVATION, "", "the reservations that match have too little left" if matching else text)


def _counted(bits: Bits) -> npt.NDArray[np.int64]:
    return np.bitwise_count(bits).astype(np.int64)
