"""A contended batch as arrays: what the optimiser is given, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.picking import Picker
from berth.placement_solver.core.plan import Candidate, Unit
from berth.placement_solver.core.pods_at_most import pods_at_most
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import Summed
from berth.rules.devices.columns import CORE, RATIO

NODES_MAX: Final = 160
ITEMS_MAX: Final = 120
PRIORITY_STEP: Final = 4.0
"""How much more a pod of the next higher priority present is worth; bounded so that the model stays well scaled."""
PRIORITY_LEVELS_MAX: Final = 6


class JointProblem(msgspec.Struct, frozen=True, kw_only=True, tag="joint"):
    """Items x nodes. Amounts are scaled per resource to at most 1 per node, so that all rows weigh alike.

    `needs[i][r]` and `free[r][n]` share the scale; after the resources come things that constraints know as sums.
    `cards[i]` is how many whole cards an item takes per pod, `share[i]` its part of one card (0 to 1) when it shares;
    `whole[n]` counts idle cards, `gpu[n]` all free GPU in cards. `most[i][n]` bounds pods of an item on a node (0: not
    suitable). `gang[i]` is the index of the item's gang, -1 without; `minimum[g]` its members that have to start
    together, `group[g]` the index of its gang group. `quota_capacity[q][d]` with `quota_needs[q][d][i]` bounds
    dimension d of quota q.
    """

    counts: list[int]
    worth: list[float]
    needs: list[list[float]]
    free: list[list[float]]
    cards: list[float]
    share: list[float]
    whole: list[float]
    gpu: list[float]
    most: list[list[int]]
    gang: list[int]
    minimum: list[int]
    group: list[int]
    quota_capacity: list[list[float]]
    quota_needs: list[list[list[float]]]
    time_limit_s: float


class Layout(msgspec.Struct, kw_only=True):
    """How to read counts back: the candidates of each item, in order, and the node of each column by name, since rows
    may have become those of other nodes by then."""

    items: list[list[Candidate]]
    nodes: list[str]


def build_problem(
    units: Sequence[Unit], nodes: Nodes, costs: Costs, picker: Picker, quotas: Quotas, time_limit_s: float
) -> tuple[JointProblem, Layout] | None:
    """The model of a batch; None when it is too large or holds nothing that could be improved."""
    items, gangs, gang_of = _items(units)
    if not items or len(items) > ITEMS_MAX:
        return None
    rows = _rows([candidates[0].cls for candidates in items], costs, picker)
    if not rows.size:
        return None
    resources = sorted({column for candidates in items for column, _ in candidates[0].cls.demand.wants})
    scale = [max(1.0, float(nodes.allocatable[column, rows].max())) for column in resources]
    summed = _summed([candidates[0].cls for candidates in items], rows)
    problem = JointProblem(
        counts=[len(candidates) for candidates in items],
        worth=_worth(items),
        needs=[
            [*_needs(candidates[0].cls, resources, scale), *(needs[at] for needs, _ in summed)]
            for at, candidates in enumerate(items)
        ],
        free=[
            *(
                (nodes.free[column, rows].clip(0) / each).tolist()
                for column, each in zip(resources, scale, strict=True)
            ),
            *(free for _, free in summed),
        ],
        cards=[_cards(candidates[0].cls) for candidates in items],
        share=[_share(candidates[0].cls) for candidates in items],
        whole=nodes.fleet.whole(rows).astype(float).tolist(),
        gpu=(nodes.fleet.free[CORE][:, rows].sum(axis=0) / 100.0).tolist(),
        most=[pods_at_most(candidates[0].cls, len(candidates), nodes, costs, rows).tolist() for candidates in items],
        gang=gang_of,
        minimum=[minimum for _, minimum in gangs],
        group=_groups([group for group, _ in gangs]),
        quota_capacity=[],
        quota_needs=[],
        time_limit_s=time_limit_s,
    )
    capacity, charged = _quotas(items, quotas)
    problem = msgspec.structs.replace(problem, quota_capacity=capacity, quota_needs=charged)
    return problem, Layout(items=items, nodes=[nodes.names[row] for row in rows.tolist()])


def _items(units: Sequence[Unit]) -> tuple[list[list[Candidate]], list[tuple[str, int]], list[int]]:
    """Candidates by class, gang and quota; the gangs as (group id, minimum); the gang of each item."""
    found: dict[tuple[int, str, object, str], list[Candidate]] = {}
    gangs: dict[str, tuple[str, int]] = {}
    for unit in units:
        for candidate in unit.candidates:
            if candidate.cls.refusals or candidate.is_reservation or (candidate.wish and candidate.wish.must):
                continue
            gang = unit.gang_of.get(candidate.name, "") if unit.needed else ""
            if gang:
                gangs.setdefault(gang, (unit.id, unit.needed.get(gang, 0)))
            found.setdefault((candidate.cls.index, gang, candidate.quota, candidate.charge_id), []).append(candidate)
    order = list(gangs)
    gang_of = [order.index(gang) if gang else -1 for _, gang, _, _ in found]
    return list(found.values()), list(gangs.values()), gang_of


def _rows(classes: Sequence[PodClass], costs: Costs, picker: Picker) -> np.ndarray:
    """The nodes worth a column: the cheapest for each class, at most `NODES_MAX` in all."""
    each = max(8, NODES_MAX // max(1, len(classes)))
    chosen: set[int] = set()
    for cls in classes:
        cost = picker.in_order(cls, costs.of(cls))
        able = np.flatnonzero(np.isfinite(cost))
        chosen.update(able[np.argsort(cost[able], kind="stable")[:each]].tolist())
    return np.array(sorted(chosen)[:NODES_MAX], np.intp)


def _worth(items: Sequence[Sequence[Candidate]]) -> list[float]:
    levels = sorted({candidates[0].object.template.priority for candidates in items})[-PRIORITY_LEVELS_MAX:]
    rank = {level: position for position, level in enumerate(levels)}
    return [PRIORITY_STEP ** rank.get(candidates[0].object.template.priority, 0) for candidates in items]


def _needs(cls: PodClass, resources: Sequence[int], scale: Sequence[float]) -> list[float]:
    asked = {column: float(amount) for column, amount in cls.demand.wants}
    return [asked.get(column, 0.0) / each for column, each in zip(resources, scale, strict=True)]


def _summed(classes: Sequence[PodClass], rows: np.ndarray) -> list[tuple[list[float], list[float]]]:
    """What each class takes of things that constraints know as sums, and what is free of them on the rows, scaled."""
    needs: dict[str, list[float]] = {}
    free: dict[str, np.ndarray] = {}
    for at, cls in enumerate(classes):
        for constraint, query in cls.by_capacity:
            if isinstance(constraint, Summed) and constraint.units(query) > 0:
                needs.setdefault(constraint.name, [0.0] * len(classes))[at] = float(constraint.units(query))
                free.setdefault(constraint.name, constraint.units_left(rows))
    scales = {name: max(1.0, float(each.max())) for name, each in free.items()}
    return [
        ([each / scales[name] for each in needs[name]], (free[name].clip(0) / scales[name]).tolist()) for name in needs
    ]


def _cards(cls: PodClass) -> float:
    want = cls.want
    return float(want.instances) if want is not None and not want.shared else 0.0


def _share(cls: PodClass) -> float:
    want = cls.want
    return want.instances * max(want.amounts[CORE], want.amounts[RATIO]) / 100.0 if want and want.shared else 0.0


def _groups(ids: Sequence[str]) -> list[int]:
    order = list(dict.fromkeys(ids))
    return [order.index(each) for each in ids]


def _quotas(items: Sequence[Sequence[Candidate]], quotas: Quotas) -> tuple[list[list[float]], list[list[list[float]]]]:
    """Capacity and needs per quota group that binds, scaled by the capacity so that rows weigh alike."""
    capacities: list[list[float]] = []
    needs: list[list[list[float]]] = []
    for key in dict.fromkeys(candidates[0].quota for candidates in items):
        group = quotas.groups.get(key) if key is not None else None
        if key is None or group is None:
            continue
        capacity, need = [], []
        for name in group.limits:
            asked = [float(c[0].charged.get(name, 0)) if c[0].quota == key else 0.0 for c in items]
            if any(asked):
                left = max(0.0, float(group.runtime.get(name, 0) - quotas.used(key).get(name, 0)))
                scale = max(left, 1.0)
                capacity.append(left / scale)
                need.append([each / scale for each in asked])
        capacities.append(capacity)
        needs.append(need)
    return capacities, needs
