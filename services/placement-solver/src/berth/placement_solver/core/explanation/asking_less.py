"""Asking for less: the most that a node has free, found by trying; of a gang by each member."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from berth.contracts import names
from berth.contracts.explanation import Repair
from berth.placement_solver.core.constraints.node_resources_fit import is_plain
from berth.placement_solver.core.explanation.forbids import Forbids
from berth.placement_solver.core.explanation.parts import OneAmount
from berth.placement_solver.core.explanation.proving import Means, places
from berth.placement_solver.core.explanation.units import with_requests
from berth.placement_solver.core.nodes import PODS
from berth.placement_solver.core.plan import Candidate, Unit
from berth.placement_solver.core.quota_limits import Over
from berth.placement_solver.core.words import amounts_listed, listed
from berth.resources.amounts import Amounts
from berth.rules.gpu_request import WHOLE_CARDS

NODES_TRIED_MAX: Final = 4
PARTS: Final = 256
"""Of a gang every member asks for so many parts of what it asked for less."""
PERCENT_NAMES: Final = (names.GPU_CORE, names.GPU_MEMORY_RATIO)

Steps: TypeAlias = "Generator[None, None, list[Repair]]"


def ask_less(unit: Unit, forbids: Forbids | None, over: Sequence[Over], means: Means) -> Steps:
    """The most of each amount with which it is placed; and of devices the most."""
    if not unit.candidates or any(each.is_reservation for each in unit.candidates):
        return []
    found: list[Repair] = []
    if forbids is None:
        found += yield from _less_each(unit, means)
    else:
        (candidate,) = unit.candidates
        found += yield from _amounts(unit, candidate, forbids, over, means)
    if not found:
        found += yield from _devices(unit, means)
    return found


def _amounts(unit: Unit, candidate: Candidate, forbids: Forbids, over: Sequence[Over], means: Means) -> Steps:
    """What is free on the node of which the largest part of the request is, and what the quota has left."""
    amounts = {
        part.query.resource: (part.query, bit)
        for part, bit in zip(forbids.parts, forbids.part_bits, strict=True)
        if isinstance(part.constraint, OneAmount) and part.query.column != PODS
    }
    left = _left(over)
    if any(name not in candidate.cls.requests or not is_plain(name) for name in left):
        return []
    lifted = sum(bit for _, bit in amounts.values())
    lifted |= sum(1 << index for index, each in enumerate(forbids.elements) if each.code == "quota")
    index = np.flatnonzero((forbids.bits & ~lifted) == 0)
    rows = forbids.rows[index]
    if not rows.size:
        return []
    part = np.ones(rows.size)
    for query, _ in amounts.values():
        part = np.minimum(part, means.nodes.free[query.column, rows] / query.amount)
    for row in rows[np.argsort(-part, kind="stable")][:NODES_TRIED_MAX].tolist():
        less: dict[str, int] = {}
        for name, (query, _) in amounts.items():
            most = min(query.amount, int(means.nodes.free[query.column, row]), left.get(name, query.amount))
            if most < query.amount:
                less[name] = most
        if less and min(less.values()) > 0:
            repair = _proved(unit, lambda each, less=less: {**each.cls.requests, **less}, less, means, row)  # type: ignore[misc]
            yield
            if repair is not None:
                return [repair]
    return []


def _left(over: Sequence[Over]) -> dict[str, int]:
    """What the groups have left of what they have too little of."""
    left: dict[str, int] = {}
    for each in over:
        left[each.name] = min(left.get(each.name, each.asked), max(0, each.allowed - each.used))
    return left


def _less_each(unit: Unit, means: Means) -> Steps:
    """The same part less of all amounts, by every member."""

    def requests(parts: int) -> Callable[[Candidate], Amounts]:
        return lambda each: {
            name: max(1, amount * parts // PARTS) if is_plain(name) else amount
            for name, amount in each.cls.requests.items()
            if amount > 0
        }

    if not all(any(is_plain(name) for name in each.cls.requests) for each in unit.candidates):
        return []
    best = yield from _most(PARTS - 1, lambda parts: _places(unit, requests(parts), means))
    if not best:
        return []
    first = unit.candidates[0]
    less = {name: each for name, each in requests(best)(first).items() if each < first.cls.requests[name]}
    repair = _proved(unit, requests(best), less, means) if less else None
    yield
    return [repair] if repair is not None else []


def _devices(unit: Unit, means: Means) -> Steps:
    """Fewer cards, or a smaller share of one."""
    asked = [_cards_asked(each.cls.requests) for each in unit.candidates]
    if not asked or any(each != asked[0] for each in asked) or not asked[0]:
        return []
    count, step = next(iter(asked[0].values())), 1
    if set(asked[0]) == set(PERCENT_NAMES) and count > 100:
        count, step = count // 100, 100
    wanted = asked[0]

    def requests(number: int) -> Callable[[Candidate], Amounts]:
        return lambda each: {**each.cls.requests, **dict.fromkeys(wanted, number * step)}

    best = yield from _most(count - 1, lambda number: _places(unit, requests(number), means))
    if not best:
        return []
    repair = _proved(unit, requests(best), dict.fromkeys(wanted, best * step), means)
    yield
    return [repair] if repair is not None else []


def _cards_asked(requests: Mapping[str, int]) -> dict[str, int]:
    """Whole cards by a vendor's count, or as many percent of cores as of memory; else nothing that is known to be less
    when it is less."""
    whole = {name: amount for name, amount in requests.items() if name in WHOLE_CARDS and amount > 0}
    shares = {name: requests[name] for name in PERCENT_NAMES if requests.get(name, 0) > 0}
    others = [name for name in requests if not is_plain(name) and name not in whole and name not in shares]
    if others or bool(whole) == bool(shares):
        return {}
    if whole:
        return whole if len(whole) == 1 else {}
    is_even = len(shares) == 2 and len(set(shares.values())) == 1
    share = next(iter(shares.values()))
    return shares if is_even and (share <= 100 or share % 100 == 0) else {}


def _most(most: int, fits: Callable[[int], bool]) -> Generator[None, None, int]:
    """The largest number up to this one that fits, if larger ones fit less; 0: none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
        yield
    return low


def _places(unit: Unit, requests: Callable[[Candidate], Amounts], means: Means) -> bool:
    changed = with_requests(unit, requests, means.classes)
    return changed is not None and places(means.solver, changed)


def _proved(
    unit: Unit, requests: Callable[[Candidate], Amounts], less: Amounts, means: Means, row: int = -1
) -> Repair | None:
    if not _places(unit, requests, means):
        return None
    each = ", each member" if unit.needed else ""
    where = f", which node {means.nodes.names[row]} has free" if row >= 0 else ""
    return Repair(
        kinds=["ask"],
        message=f"ask for at most {listed(amounts_listed(less))}{each}{where}",
        requests=dict(requests(unit.candidates[0])),
    )
