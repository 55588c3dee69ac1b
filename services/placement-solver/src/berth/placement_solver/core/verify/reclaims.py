"""Who may be made to leave for the sake of quota: of the group itself pods of lower priority; of another group
whom it has beyond its runtime, for pods that stay within the min of theirs, each group with all whom it pays for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.nominations import units_of
from berth.placement_solver.core.verify.view import View
from berth.rules.quota_payer import charged
from berth.transaction.claims import Claim

Key: TypeAlias = tuple[str, str]
Used: TypeAlias = Callable[[Key], Mapping[str, int]]
"""What is in use in a group's whole subtree, by its tree and name."""
IsOver: TypeAlias = Callable[[Key, Mapping[str, int], Mapping[str, int]], bool]
"""Whether a group is over its runtime of something that somebody holds, once so much of it has gone."""


def reclaim_problems(
    claims: Sequence[Claim], victims: Sequence[Pod], view: View, promised: Used, used: Used
) -> Iterator[str]:
    """What keeps victims from leaving for these claims. Who is leaving already is not counted as used by others.

    `promised` counts as used what pods are nominated to, too, `used` does not.
    """
    trees = {_key(claim)[0] for claim in claims}
    if len(trees) != 1 or not all(claim.quota for claim in claims):
        yield "quota gives back for pods of one tree"
        return
    (tree,) = trees
    asked: dict[str, int] = {}
    of_min: dict[Key, dict[str, int]] = {_key(claim): {} for claim in claims}
    for claim in claims:
        _take(asked, claim)
        for key in [_key(claim), *((tree, name) for name in _above(_key(claim), view))]:
            if key in of_min:
                _add(of_min[key], charged(claim.amounts, claim.uncharged), 1)  # what hooks charge nobody lends
    waiting = [pod for claim in claims if isinstance(pod := view.book.seen(claim.name), Pod)]
    lowest = min((pod.template.priority for pod in waiting), default=None)
    groups = view.quotas.groups
    is_promised = all(_is_within_min(amounts, groups.get(key), promised(key)) for key, amounts in of_min.items())
    lent: list[_Lent] = []
    for unit in units_of(victims, view):
        held_of: dict[Key, dict[str, int]] = {}
        for victim, held in _held(unit, view):
            who = f"victim {victim.namespace}/{victim.name}"
            key = _key(held)
            if not held.quota or key[0] != tree:
                yield f"{who} is not charged to a group of the same tree"
            elif key in of_min:
                if lowest is None or victim.template.priority >= lowest:
                    yield f"{who} is of the same group, and not of lower priority"
            elif not is_promised:
                yield f"{who} is of another group, and what waits exceeds the min of its own"
            else:
                _take(held_of.setdefault(key, {}), held)
        if held_of:
            lent.append(_Lent(unit, held_of))
    gone: dict[Key, dict[str, int]] = {}
    for leaving in leaving_of(tree, view):
        _take(gone.setdefault(_key(leaving), {}), leaving)

    def is_over(key: Key, held: Mapping[str, int], less: Mapping[str, int]) -> bool:
        return _is_over(held, asked, groups.get(key), used(key), less)

    for each in _not_too_much(lent, gone, is_over):
        who = f"victim {each.unit[0].namespace}/{each.unit[0].name}"
        yield f"{who}: {', '.join(key[1] for key in each.held)} uses no more than its runtime"


def _above(key: Key, view: View) -> Sequence[str]:
    group = view.quotas.groups.get(key)
    return group.ancestors if group is not None else ()


class _Lent(NamedTuple):
    """Who leaves together, and what they hold of each group."""

    unit: list[Pod]
    held: dict[Key, dict[str, int]]


def _not_too_much(lent: Sequence[_Lent], gone: dict[Key, dict[str, int]], is_over: IsOver) -> list[_Lent]:
    """Those that no order of leaving lets leave: each has to begin while every group of its own is over its runtime.

    The last one is found first: whoever may leave when all others have. Without it, the others may all the more.
    """
    for each in lent:
        for key, amounts in each.held.items():
            _add(gone.setdefault(key, {}), amounts, 1)
    left = list(lent)
    while True:
        staying: list[_Lent] = []
        for each in left:
            for key, amounts in each.held.items():
                _add(gone[key], amounts, -1)
            if not all(is_over(key, amounts, gone[key]) for key, amounts in each.held.items()):
                staying.append(each)
                for key, amounts in each.held.items():
                    _add(gone[key], amounts, 1)
        if len(staying) in (0, len(left)):
            return staying
        left = staying


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
    _add(into, claim.charged, 1)


def _add(into: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + sign * amount
