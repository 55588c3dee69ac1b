"""What would help a pod or a gang that nobody takes: each tried by solving with it, and shown only if it does.

Where limits of quota stand in the way, they are raised first, and what else is needed is tried beside that.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from typing import Final, TypeAlias

from berth.contracts.explanation import QuotaLimit, Repair
from berth.placement_solver.core.explanation.another_node import add_nodes
from berth.placement_solver.core.explanation.asking_less import ask_less
from berth.placement_solver.core.explanation.forbids import Forbids
from berth.placement_solver.core.explanation.leaving import free_in_quota, free_on_node
from berth.placement_solver.core.explanation.proving import Change, Means, NewLimits, places, raised
from berth.placement_solver.core.explanation.units import needed_of
from berth.placement_solver.core.plan import Unit
from berth.placement_solver.core.quota_limits import Over, raised_in_words
from berth.placement_solver.core.quota_limits import raised as wanted_limits

ORDER: Final = ("ask", "raise", "evict", "free", "add")
"""Cheapest first."""
NO_CHANGE: Final[Change] = nullcontext

Steps: TypeAlias = "Generator[None, None, list[Repair]]"


def repairs_of(unit: Unit, forbids: Forbids | None, means: Means) -> Steps:
    """All that are found, cheapest first. `forbids`: what forbids a pod by itself; None of a gang."""
    found: list[Repair] = []
    over = exceeded_together(unit, means)
    yield
    found += yield from ask_less(unit, forbids, over, means)
    found += yield from _evict(unit, means)
    found += yield from free_in_quota(unit, over, means)
    limits = limits_for(over)
    if limits:
        change, words, step = raised(means.solver, limits), _words(limits), _as_parts(limits)
        if places(means.solver, unit, (change,)):
            found.append(Repair(kinds=["raise"], message=f"raise {words}", limits=step))
        yield
    else:
        change, words, step = NO_CHANGE, "", []
    if not limits or not any("raise" in each.kinds for each in found):
        others = yield from free_on_node(unit, forbids, means, change)
        others += yield from add_nodes(unit, means, change)
        found += [_beside(each, words, step) for each in others]
    return sorted(found, key=_cost)


def exceeded_together(unit: Unit, means: Means) -> list[Over]:
    """The limits that those who have to be placed would exceed together."""
    chosen = needed_of(unit)
    by_payer: dict[tuple[tuple[str, str], bool], dict[str, int]] = {}
    for each in chosen:
        if each.quota is not None:
            amounts = by_payer.setdefault((each.quota, each.non_preemptible), {})
            for name, amount in each.charged.items():
                amounts[name] = amounts.get(name, 0) + amount
    quotas = means.solver.capacity.quotas
    return [
        over
        for (key, non_preemptible), amounts in by_payer.items()
        for over in quotas.exceeded(key, amounts, non_preemptible=non_preemptible)
    ]


def limits_for(over: Sequence[Over]) -> list[NewLimits]:
    """What max and min of which groups have to become."""
    found: dict[tuple[str, str], NewLimits] = {}
    trees = {each.group.name: each.group.tree for each in over}
    for (group, name, field), amount in wanted_limits(over).items():
        limits = found.setdefault((trees[group], group), NewLimits((trees[group], group), {}, {}))
        (limits.max if field == "max" else limits.min)[name] = amount
    return list(found.values())


def _evict(unit: Unit, means: Means) -> Steps:
    leaving = means.evicts(unit)
    yield
    if leaving is None or not leaving.pods:
        return []
    node = leaving.nodes[0] if len(leaving.nodes) == 1 else ""
    where = f"leave node {node}" if node else "leave"
    message = f"have {', '.join(leaving.pods)} {where}, who give way to it by the rules"
    return [Repair(kinds=["evict"], message=message, pods=list(leaving.pods), node=node)]


def _beside(repair: Repair, words: str, limits: list[QuotaLimit]) -> Repair:
    if not words:
        return repair
    return Repair(
        kinds=["raise", *repair.kinds],
        message=f"raise {words}, and {repair.message}",
        node=repair.node,
        pods=repair.pods,
        nodes=repair.nodes,
        like=repair.like,
        limits=limits,
    )


def _words(limits: Sequence[NewLimits]) -> str:
    wanted = {
        (each.key[1], name, field): amount
        for each in limits
        for field, amounts in (("min", each.min), ("max", each.max))
        for name, amount in amounts.items()
    }
    return " and ".join(raised_in_words(wanted))


def _as_parts(limits: Sequence[NewLimits]) -> list[QuotaLimit]:
    return [QuotaLimit(tree=each.key[0], name=each.key[1], max=dict(each.max), min=dict(each.min)) for each in limits]


def _cost(repair: Repair) -> tuple[int, int, int, str]:
    dearest = max(ORDER.index(kind) for kind in repair.kinds)
    return dearest, len(repair.kinds), len(repair.pods) + repair.nodes, repair.message
