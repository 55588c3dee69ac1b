"""Who may be made to leave for the sake of quota: of the group itself pods of lower priority; of another group
whom it has beyond its runtime, for a pod that stays within the min of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.view import View
from berth.rules.preemption import importance
from berth.transaction.claims import Claim

Key: TypeAlias = tuple[str, str]
Used: TypeAlias = Callable[[Key], Mapping[str, int]]
"""What is in use in a group's whole subtree, by its tree and name."""


def reclaim_problems(claims: Sequence[Claim], victims: Sequence[Pod], view: View, used: Used) -> Iterator[str]:
    """What keeps victims from leaving for these claims. Who is leaving already is not counted as used by others."""
    if len(claims) != 1 or not claims[0].quota:
        yield "quota gives back for single pods of a group"
        return
    claim = claims[0]
    waits = view.book.seen(claim.name)
    groups = view.quotas.groups
    own = _key(claim)
    gone: dict[Key, dict[str, int]] = {}
    for leaving in leaving_of(own[0], view):
        _take(gone.setdefault(_key(leaving), {}), leaving)
    is_promised = _is_within_min(claim, groups.get(own), used(own))
    for victim, held in sorted(_held(victims, view), key=lambda each: importance(each[0]), reverse=True):
        who = f"victim {victim.namespace}/{victim.name}"
        key = _key(held)
        if not held.quota or key[0] != own[0]:
            yield f"{who} is not charged to a group of the same tree"
        elif key == own:
            if not isinstance(waits, Pod) or victim.template.priority >= waits.template.priority:
                yield f"{who} is of the same group, and not of lower priority"
        elif not is_promised:
            yield f"{who} is of another group, and what waits exceeds the min of its own"
        elif not _is_over(held, claim, groups.get(key), used(key), gone.get(key, {})):
            yield f"{who} is of a group that uses no more than its runtime"
        else:
            _take(gone.setdefault(key, {}), held)


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


def _is_within_min(claim: Claim, group: QuotaGroup | None, used: Mapping[str, int]) -> bool:
    if group is None:
        return False
    asked = [name for name in group.limits if claim.charged.get(name, 0) > 0]
    return bool(asked) and all(
        used.get(name, 0) + claim.charged[name] <= group.effective_min.get(name, 0) for name in asked
    )


def _is_over(
    victim: Claim, claim: Claim, group: QuotaGroup | None, used: Mapping[str, int], gone: Mapping[str, int]
) -> bool:
    return group is not None and any(
        used.get(name, 0) - gone.get(name, 0) > group.runtime.get(name, 0)
        for name in group.limits
        if victim.charged.get(name, 0) > 0 and claim.charged.get(name, 0) > 0
    )


def _key(claim: Claim) -> Key:
    tree, _, name = claim.quota.rpartition("/")
    return (tree, name)


def _take(into: dict[str, int], claim: Claim) -> None:
    for name, amount in claim.charged.items():
        into[name] = into.get(name, 0) + amount
