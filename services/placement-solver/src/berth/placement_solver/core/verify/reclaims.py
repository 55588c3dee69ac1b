"""Who may be made to leave for the sake of quota: of the group itself pods of lower priority; of another group
whom it has beyond its runtime, for a pod that stays within the min of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.nominations import units_of
from berth.placement_solver.core.verify.view import View
from berth.rules.preemption import importance
from berth.transaction.claims import Claim

Key: TypeAlias = tuple[str, str]
Used: TypeAlias = Callable[[Key], Mapping[str, int]]
"""What is in use in a group's whole subtree, by its tree and name."""


def reclaim_problems(claims: Sequence[Claim], victims: Sequence[Pod], view: View, used: Used) -> Iterator[str]:
    """What keeps victims from leaving for these claims. Who is leaving already is not counted as used by others; who
    leaves together is asked about together, a gang after those that leave by themselves."""
    payers = {_key(claim) for claim in claims}
    if len(payers) != 1 or not all(claim.quota for claim in claims):
        yield "quota gives back for pods of one group"
        return
    (own,) = payers
    asked: dict[str, int] = {}
    for claim in claims:
        _take(asked, claim)
    waiting = [pod for claim in claims if isinstance(pod := view.book.seen(claim.name), Pod)]
    lowest = min((pod.template.priority for pod in waiting), default=None)
    groups = view.quotas.groups
    gone: dict[Key, dict[str, int]] = {}
    for leaving in leaving_of(own[0], view):
        _take(gone.setdefault(_key(leaving), {}), leaving)
    is_promised = _is_within_min(asked, groups.get(own), used(own))
    for unit in _in_order(victims, view):
        lent: dict[Key, dict[str, int]] = {}
        for victim, held in _held(unit, view):
            who = f"victim {victim.namespace}/{victim.name}"
            key = _key(held)
            if not held.quota or key[0] != own[0]:
                yield f"{who} is not charged to a group of the same tree"
            elif key == own:
                if lowest is None or victim.template.priority >= lowest:
                    yield f"{who} is of the same group, and not of lower priority"
            elif not is_promised:
                yield f"{who} is of another group, and what waits exceeds the min of its own"
            else:
                _take(lent.setdefault(key, {}), held)
        for key, amounts in lent.items():
            before = gone.setdefault(key, {})
            if not _is_over(amounts, asked, groups.get(key), used(key), before):
                yield f"victim {unit[0].namespace}/{unit[0].name}: group {key[1]} uses no more than its runtime"
            for name, amount in amounts.items():
                before[name] = before.get(name, 0) + amount


def _in_order(victims: Sequence[Pod], view: View) -> list[list[Pod]]:
    """Those that leave together, the fewest first; of as many, the least important."""
    units = sorted(units_of(victims, view), key=lambda unit: min(map(importance, unit)), reverse=True)
    return sorted(units, key=len)


def leaving_of(tree: str, view: View) -> list[Claim]:
    """The claims charged to a tree of those who are terminating, or victims of a nomination that stands."""
    book = view.book
    found: dict[str, Claim] = {}
    named = {victim.uid for each in book.nominations for victim in book.remaining_victims(each)}
    for name, pod in book.pods.items():
        if pod.node and (pod.deleting or pod.uid in named):
            for claim in book.claims_on(pod.node):
                if claim.name == name and claim.uid == pod.uid and claim.quota and _key(claim)[0] == tree:
                    found[claim.uid] = claim
    return list(found.values())


def held_by(victims: Sequence[Pod], view: View) -> list[Claim]:
    """What victims hold."""
    return [claim for _, claim in _held(victims, view)]


def _held(victims: Sequence[Pod], view: View) -> Iterator[tuple[Pod, Claim]]:
    for victim in victims:
        for claim in view.book.claims_on(victim.node):
            if claim.uid == victim.uid:
                yield victim, claim


def _is_within_min(amounts: Mapping[str, int], group: QuotaGroup | None, used: Mapping[str, int]) -> bool:
    if group is None:
        return False
    asked = [name for name in group.limits if amounts.get(name, 0) > 0]
    return bool(asked) and all(used.get(name, 0) + amounts[name] <= group.effective_min.get(name, 0) for name in asked)


def _is_over(
    held: Mapping[str, int],
    asked: Mapping[str, int],
    group: QuotaGroup | None,
    used: Mapping[str, int],
    gone: Mapping[str, int],
) -> bool:
    return group is not None and any(
        used.get(name, 0) - gone.get(name, 0) > group.runtime.get(name, 0)
        for name in group.limits
        if held.get(name, 0) > 0 and asked.get(name, 0) > 0
    )


def _key(claim: Claim) -> Key:
    tree, _, name = claim.quota.rpartition("/")
    return (tree, name)


def _take(into: dict[str, int], claim: Claim) -> None:
    for name, amount in claim.charged.items():
        into[name] = into.get(name, 0) + amount
