"""A contended batch as arrays: what the optimiser is given, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.joint.choosing import rows_for
from berth.placement_solver.core.nodes import AMOUNT_MAX, Nodes
from berth.placement_solver.core.picking import Picker
from berth.placement_solver.core.plan import Candidate, Solution, Unit
from berth.placement_solver.core.pods_at_most import pods_at_most
from berth.placement_solver.core.quota_left import limits_of
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import RowArray, Summed
from berth.rules.devices.columns import CORE, RATIO

ITEMS_MAX: Final = 120
WHOLE: Final = 100
"""Percent of a card."""


class JointProblem(msgspec.Struct, frozen=True, kw_only=True, tag="joint"):
    """Items (pods that are alike to the model) x nodes; levels are priorities, the highest first.

    Of item i there are `counts[i]`, of level `level[i]`; each takes `needs[i][r]` of what nodes have `free[r][n]` of:
    resources, and after them things that constraints know as sums. It takes `share[i]` percent of each of `cards[i]`
    cards; `percent` is what is free of each card, cards x nodes. `most[i][n]` bounds pods of an item on a node (0: not
    suitable), `cost[i][n]` is what a node costs, 0 to 1. `placed[l]` pods of each level are in the plan at hand.
    `gang[i]` is the index of the item's gang, -1 without; `minimum[g]` its members that have to start together,
    `group[g]` the index of its gang group. `charges[q][i]` is what a pod takes of a limit of which `limits[q]` is left.
    """

    counts: list[int]
    level: list[int]
    placed: list[int]
    needs: list[list[int]]
    free: list[list[int]]
    cards: list[int]
    share: list[int]
    percent: list[list[int]]
    most: list[list[int]]
    cost: list[list[float]]
    gang: list[int]
    minimum: list[int]
    group: list[int]
    limits: list[int]
    charges: list[list[int]]
    time_limit_s: float


class Layout(msgspec.Struct, kw_only=True):
    """How to read counts back: the candidates of each item, in order, and the node of each column by name, since rows
    may have become those of other nodes by then."""

    items: list[list[Candidate]]
    nodes: list[str]


def build_problem(
    units: Sequence[Unit],
    greedy: Solution,
    nodes: Nodes,
    costs: Costs,
    picker: Picker,
    quotas: Quotas,
    time_limit_s: float,
) -> tuple[JointProblem, Layout] | None:
    """The model of a batch for which `greedy` is the plan at hand, of which nothing is charged; None when it is too
    large or holds nothing that could be improved."""
    items, gangs, gang_of = _items(units)
    if not items or len(items) > ITEMS_MAX:
        return None
    classes = [candidates[0].cls for candidates in items]
    there = {placement.candidate.name: placement.claim.node for placement in greedy.placements}
    at_hand = [nodes.rows[node] for node in there.values() if node in nodes.rows]
    rows = rows_for([(each[0].cls, len(each)) for each in items], at_hand, nodes, costs, picker)
    if not rows.size:
        return None
    resources = sorted({column for cls in classes for column, _ in cls.demand.wants})
    summed = _summed(classes, rows)
    priorities = [candidates[0].object.template.priority for candidates in items]
    levels = sorted(set(priorities), reverse=True)
    placed = dict.fromkeys(levels, 0)
    for candidates, priority in zip(items, priorities, strict=True):
        placed[priority] += sum(candidate.name in there for candidate in candidates)
    wants = [_card_wants(cls) for cls in classes]
    has_cards = any(share for _, share in wants)
    limits = limits_of([candidates[0] for candidates in items], quotas)
    problem = JointProblem(
        counts=[len(candidates) for candidates in items],
        level=[levels.index(priority) for priority in priorities],
        placed=list(placed.values()),
        needs=[[*_needs(cls, resources), *(needs[at] for needs, _ in summed)] for at, cls in enumerate(classes)],
        free=[*(nodes.free[column, rows].clip(0).tolist() for column in resources), *(free for _, free in summed)],
        cards=[cards for cards, _ in wants],
        share=[share for _, share in wants],
        percent=nodes.fleet.percent[:, rows].tolist() if has_cards else [],
        most=[pods_at_most(candidates[0].cls, len(candidates), nodes, costs, rows).tolist() for candidates in items],
        cost=[_costs(cls, rows, costs, picker) for cls in classes],
        gang=gang_of,
        minimum=[minimum for _, minimum in gangs],
        group=_groups([group for group, _ in gangs]),
        limits=[each.left for each in limits],
        charges=[list(each.charged) for each in limits],
        time_limit_s=time_limit_s,
    )
    return problem, Layout(items=items, nodes=[nodes.names[row] for row in rows.tolist()])


def _items(units: Sequence[Unit]) -> tuple[list[list[Candidate]], list[tuple[str, int]], list[int]]:
    """Candidates by class, gang, priority and quota; the gangs as (group id, minimum); the gang of each item."""
    found: dict[tuple[tuple[int, str, int], object], list[Candidate]] = {}
    gangs: dict[str, tuple[str, int]] = {}
    for unit in units:
        for candidate in unit.candidates:
            if candidate.cls.refusals or candidate.is_reservation or (candidate.wish and candidate.wish.must):
                continue
            gang = unit.gang_of.get(candidate.name, "") if unit.needed else ""
            if gang:
                gangs.setdefault(gang, (unit.id, unit.needed.get(gang, 0)))
            kind = (candidate.cls.index, gang, candidate.object.template.priority)
            payer = (candidate.quota, candidate.charge_id, candidate.non_preemptible)
            found.setdefault((kind, payer), []).append(candidate)
    order = list(gangs)
    gang_of = [order.index(gang) if gang else -1 for (_, gang, _), _ in found]
    return list(found.values()), list(gangs.values()), gang_of


def _needs(cls: PodClass, resources: Sequence[int]) -> list[int]:
    asked = dict(cls.demand.wants)
    return [min(asked.get(column, 0), AMOUNT_MAX) for column in resources]


def _costs(cls: PodClass, rows: RowArray, costs: Costs, picker: Picker) -> list[float]:
    cost = picker.in_order(cls, costs.of(cls))[rows]
    there = cost[np.isfinite(cost)]
    if not there.size or there.min() == there.max():
        return [0.0] * rows.size
    found: list[float] = np.nan_to_num((cost - there.min()) / (there.max() - there.min()), posinf=1.0).tolist()
    return found


def _summed(classes: Sequence[PodClass], rows: RowArray) -> list[tuple[list[int], list[int]]]:
    """What each class takes of things that constraints know as sums, and what is free of them on the rows."""
    needs: dict[str, list[int]] = {}
    free: dict[str, RowArray] = {}
    for at, cls in enumerate(classes):
        for constraint, query in cls.by_capacity:
            if isinstance(constraint, Summed) and constraint.units(query) > 0:
                needs.setdefault(constraint.name, [0] * len(classes))[at] = constraint.units(query)
                free.setdefault(constraint.name, constraint.units_left(rows))
    return [(needs[name], free[name].clip(0).tolist()) for name in needs]


def _card_wants(cls: PodClass) -> tuple[int, int]:
    """From how many cards, and how many percent of each; what is uneven counts as the larger part."""
    want = cls.want
    share = min(max(want.amounts[CORE], want.amounts[RATIO]), WHOLE) if want is not None else 0
    return (want.instances, share) if want is not None and share else (0, 0)


def _groups(ids: Sequence[str]) -> list[int]:
    order = list(dict.fromkeys(ids))
    return [order.index(each) for each in ids]
