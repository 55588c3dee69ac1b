"""How the groups stand, for people: each with its figures, its loans, and who waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.quota_question import QuotaAnswer, QuotaStanding
from berth.quota_manager.core.engine import Engine
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.loans import Loan
from berth.quota_manager.core.quota_state import short_of
from berth.resources.amounts import Amounts, clamped, without_zeros

GROUPS_MAX: Final = 500
"""One answer has no place for more."""


def standing(
    engine: Engine,
    loan_of: Callable[[str], Loan],
    problems: Mapping[str, list[Problem]],
    *,
    shown_of: Callable[[str], Mapping[str, Mapping[str, str]]],
    name: str = "",
    ready: bool = True,
) -> QuotaAnswer:
    """The answer, about all groups or one (with those above and below it). `problems` go by object, `shown_of` says
    what hooks show of a group."""
    groups = list(_in_order(engine, name))
    roots = engine.forest.roots
    return QuotaAnswer(
        ready=ready,
        groups=[_standing(group, engine, loan_of, problems, shown_of) for group in groups[:GROUPS_MAX]],
        left_out=max(0, len(groups) - GROUPS_MAX),
        totals={tree: clamped(roots[tree].runtime) for tree in sorted({group.tree for group in groups} & roots.keys())},
        uses_runtime=engine.rules.uses_runtime,
    )


def _in_order(engine: Engine, name: str) -> Iterator[Group]:
    """Trees one after the other, each group behind the one above it; those that belong to no tree come last."""
    forest = engine.forest
    if name:
        asked = forest.groups.get(name)
        if asked is not None:
            yield from reversed(list(asked.ancestors()))
            yield from _with_all_below(asked)
        return
    for tree in sorted(forest.roots):
        for child in sorted(forest.roots[tree].children, key=_name):
            yield from _with_all_below(child)
    for top in sorted((each for each in forest.groups.values() if each.parent is None), key=_name):
        yield from _with_all_below(top)


def _with_all_below(group: Group) -> Iterator[Group]:
    stack = [group]
    while stack:
        each = stack.pop()
        yield each
        stack += sorted(each.children, key=_name, reverse=True)


def _standing(
    group: Group,
    engine: Engine,
    loan_of: Callable[[str], Loan],
    problems: Mapping[str, list[Problem]],
    shown_of: Callable[[str], Mapping[str, Mapping[str, str]]],
) -> QuotaStanding:
    spec, loan = group.spec, loan_of(group.name)
    pods, waiting = engine.pods_of(group.name)
    return QuotaStanding(
        tree=group.tree,
        name=group.name,
        namespace=spec.namespace,
        parent=spec.parent,
        depth=0 if group.is_detached else sum(1 for _ in group.ancestors()),
        limits=sorted(spec.max),
        min=clamped(spec.min),
        max=clamped(spec.max),
        effective_min={} if group.is_detached else clamped(group.effective_min),
        runtime=clamped({**spec.max, **group.runtime}),  # of what its level does not share the max is the limit
        used=_shown(group.used),
        request=_shown(group.request),
        lent=clamped(loan.lent),
        borrowed=clamped(loan.borrowed),
        lent_to=list(loan.lent_to),
        borrowed_from=list(loan.borrowed_from),
        pods=pods,
        waiting=waiting,
        short=sorted(short_of(group)) if waiting else [],
        lends=group.lends,
        guarantees=group.guarantees,
        detached=group.is_detached,
        problems=problems.get(spec.object, []),
        shown={hook: dict(fields) for hook, fields in shown_of(group.name).items()},
    )


def _shown(amounts: Amounts) -> Amounts:
    return without_zeros(clamped(amounts))


def _name(group: Group) -> str:
    return group.name
