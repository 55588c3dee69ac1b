"""Pods that would have to leave, whoever they are: as few as possible of one node, or of one quota group. Members that
a strict gang cannot spare leave with all of it, as they would if Berth made them leave."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeAlias

import numpy as np

from berth.contracts.explanation import Repair
from berth.placement_solver.core.explanation.forbids import Forbids
from berth.placement_solver.core.explanation.parts import parts_of
from berth.placement_solver.core.explanation.proving import Change, Means, places, without
from berth.placement_solver.core.plan import Unit
from berth.placement_solver.core.quota_limits import Over
from berth.placement_solver.core.seams import Hypothesis, Target
from berth.placement_solver.core.words import listed, text_of
from berth.transaction.claims import Claim

NODES_TRIED_MAX: Final = 6
HOLDERS_MAX: Final = 128
NAMED_MAX: Final = 8

Steps: TypeAlias = "Generator[None, None, list[Repair]]"


def free_on_node(unit: Unit, forbids: Forbids | None, means: Means, change: Change) -> Steps:
    """The fewest pods of one node that would have to leave it, and what they take; with another change made, too."""
    best: tuple[int, list[Claim], str] | None = None
    for row in _rows_worth_it(unit, forbids, means):
        node = means.nodes.names[row]
        holders = [each for each in means.book.claims_on(node) if _may_be_named(each, means)][:HOLDERS_MAX]
        fits = _fits(unit, means, change) if unit.needed else _fits_on(unit, row, means)
        gone = yield from _fewest(_together(holders, means), fits)
        if gone and (best is None or len(gone) < best[0]):
            best = (len(gone), gone, node)
    if best is None:
        return []
    _, gone, node = best
    is_proved = places(means.solver, unit, (change, without(means.solver, gone)))
    yield
    where = f"leave node {node}" if all(each.node == node for each in gone) else f"leave node {node} and others"
    return [_repair(gone, where, node)] if is_proved else []


def free_in_quota(unit: Unit, over: Sequence[Over], means: Means) -> Steps:
    """The fewest pods of its own group that would have to leave, so that its limits let it in."""
    payers = {each.quota for each in unit.candidates}
    payer = next(iter(payers), None)
    if not over or len(payers) != 1 or payer is None:
        return []
    short = {each.name: each.used + each.asked - each.allowed for each in over}
    held = [each for each in means.charged.of(*payer) if _may_be_named(each, means)]
    held.sort(key=lambda each: (-sum(each.charged.get(name, 0) / lack for name, lack in short.items()), each.name))
    gone = yield from _fewest(_together(held[:HOLDERS_MAX], means), _fits(unit, means))
    return [_repair(gone, f"of quota {payer[1]} leave", "")] if gone else []


def _rows_worth_it(unit: Unit, forbids: Forbids | None, means: Means) -> list[int]:
    """Those that nothing forbids but what is taken on them, the least short first."""
    nodes, candidate = means.nodes, unit.candidates[0]
    parts = parts_of(candidate, nodes)
    if forbids is None:
        rows = np.flatnonzero(nodes.alive[: len(nodes)])
        suits = np.ones(rows.size, np.bool_)
        for part in parts:
            if not part.is_of_capacity:
                suits &= part.constraint.mask(part.query, rows)
    else:
        rows, lifted = forbids.rows, sum(1 << i for i, each in enumerate(forbids.elements) if each.code == "quota")
        lifted |= sum(bit for part, bit in zip(forbids.parts, forbids.part_bits, strict=True) if part.is_of_capacity)
        suits = (forbids.bits & ~lifted) == 0
    short = np.zeros(rows.size)
    for column, amount in candidate.cls.demand.wants:
        suits &= nodes.allocatable[column, rows] >= amount
        short += np.maximum(amount - nodes.free[column, rows], 0) / amount
    chosen = np.flatnonzero(suits)
    order = np.argsort(short[chosen], kind="stable")[:NODES_TRIED_MAX]
    return [int(each) for each in rows[chosen[order]]]


def _together(holders: Sequence[Claim], means: Means) -> list[list[Claim]]:
    """Who of these leaves with whom: each alone, but for the members that a strict gang cannot spare, which leave with
    all of it. Of a gang of which somebody may not be named, or that another scheduler places, nobody is."""
    units: list[list[Claim]] = []
    of_gangs: dict[str, list[Claim]] = {}
    for claim in holders:
        pod = means.book.pods[claim.name]
        gang = means.gangs.strict_gang_of(pod)
        if gang is not None:
            of_gangs.setdefault(gang.id, []).append(claim)
        elif not means.gangs.is_in_strict(pod):
            units.append([claim])
    for gang_id, some in of_gangs.items():
        gang = means.gangs.gangs[gang_id]
        members = [claim for name in sorted(gang.placed) for claim in means.book.claims_of(name)]
        minimum = gang.config.min_member if gang.config is not None else None
        spare = max(0, len(gang.placed) - minimum) if minimum is not None else 0
        units += [[each] for each in sorted(some, key=_worth, reverse=True)[:spare]]
        if all(_may_be_named(each, means) for each in members):
            units.append(members)
    return units


def _fewest(
    units: Sequence[Sequence[Claim]], fits: Callable[[Sequence[Claim]], bool]
) -> Generator[None, None, list[Claim]]:
    """Of these as few as are needed, those that take most first kept where they are; none: not even all are enough."""
    gone = list(units)
    if not gone or not fits(_all_of(gone)):
        return []
    yield
    for each in sorted(units, key=lambda unit: tuple(map(sum, zip(*map(_worth, unit), strict=True))), reverse=True):
        rest = [other for other in gone if other is not each]
        if fits(_all_of(rest)):
            gone = rest
        yield
    return _all_of(gone)


def _all_of(units: Sequence[Sequence[Claim]]) -> list[Claim]:
    """Each once: who can be spared is in its gang as well."""
    return list({each.uid: each for unit in units for each in unit}.values())


def _worth(claim: Claim) -> tuple[int, int, int]:
    """How much somebody takes: devices before cpu before memory."""
    return len(claim.grants), claim.amounts.get("cpu", 0), claim.amounts.get("memory", 0)


def _fits_on(unit: Unit, row: int, means: Means) -> Callable[[Sequence[Claim]], bool]:
    """Whether the node takes a pod, whatever its quota says."""
    (candidate,), node = unit.candidates, means.nodes.names[row]
    return lambda gone: means.solver.admits(
        candidate, Target(row, Hypothesis(gone=tuple(each for each in gone if each.node == node)))
    )


def _fits(unit: Unit, means: Means, *changes: Change) -> Callable[[Sequence[Claim]], bool]:
    return lambda gone: places(means.solver, unit, (*changes, without(means.solver, gone)))


def _may_be_named(claim: Claim, means: Means) -> bool:
    """It is a pod's own place, and not one out of a reservation."""
    return not claim.is_reservation and not claim.reservation and not claim.loans and claim.name in means.book.pods


def _repair(gone: Sequence[Claim], what: str, node: str) -> Repair:
    named = sorted(text_of(each.name) for each in gone)
    beyond = len(named) - NAMED_MAX
    some = f"{', '.join(named[:NAMED_MAX])} and {beyond} more" if beyond > 0 else listed(named)
    return Repair(kinds=["free"], message=f"have {some} {what}", pods=named, node=node)
