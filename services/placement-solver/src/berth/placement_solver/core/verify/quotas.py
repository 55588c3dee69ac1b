"""Quota use, counted once more from the claims, and the limits of QUOTA held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from berth.contracts import names
from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.view import View
from berth.rules.quota_of_pod import BUILT_IN_GROUPS, DEFAULT_GROUP, ROOT_GROUP
from berth.transaction.claims import Claim

Key: TypeAlias = tuple[str, str]
Amounts: TypeAlias = dict[str, int]
Groups: TypeAlias = Mapping[Key, QuotaGroup]


class _Added(NamedTuple):
    """What the plan's earlier claims have charged."""

    non_preemptible: dict[Key, Amounts]
    subtree: dict[Key, Amounts]


class QuotaTallies:
    """Use by group: of its own pods, of its own non-preemptible pods, and of its whole subtree."""

    def __init__(self) -> None:
        self._own: dict[Key, Amounts] = {}
        self._non_preemptible: dict[Key, Amounts] = {}
        self._subtree: dict[Key, Amounts] = {}
        self._known: dict[Key, QuotaGroup] = {}
        self._names: frozenset[str] = frozenset()
        self._serving: dict[str, set[Key]] = {}

    def count(self, claim: Claim, sign: int) -> None:
        """A claim came (1) or went (-1)."""
        if claim.quota:
            _charge(claim, sign, self._own, self._non_preemptible, self._subtree, self._known)

    def problems(self, claims: Sequence[Claim], view: View) -> Iterator[str]:
        """What the claims would exceed, and claims that charge the wrong group."""
        groups = view.quotas.groups
        if not groups and not any(claim.quota for claim in claims):
            return
        self._keep_shape(groups)
        for claim in claims:
            if not claim.is_reservation:
                yield from self._wrong_payer(claim, view, groups)
        added = _Added({}, {})
        for claim in claims:
            if claim.quota:
                yield from self._over_limits(claim, groups, added)
                _charge(claim, 1, {}, added.non_preemptible, added.subtree, groups)

    def used_of(self, view: View) -> Callable[[Key], Mapping[str, int]]:
        """What is in use in the whole subtree of a group."""
        self._keep_shape(view.quotas.groups)
        return lambda key: self._subtree.get(key, {})

    def _over_limits(self, claim: Claim, groups: Groups, added: _Added) -> Iterator[str]:
        """Limits hold at the moment of charging: after the claims before this one, whatever comes later."""
        key, *above = _line(_key(claim), groups)
        group = groups.get(key)
        if group is None:
            return
        asked = claim.amounts
        if claim.non_preemptible:
            promised = {name: amount for name, amount in asked.items() if name in group.min}
            yield from _over(
                group,
                "min",
                group.min,
                promised,
                self._non_preemptible.get(key, {}),
                added.non_preemptible.get(key, {}),
            )
        yield from _over(group, "runtime", group.runtime, asked, self._subtree.get(key, {}), added.subtree.get(key, {}))
        for each in above:
            ancestor = groups.get(each)
            if ancestor is None:
                yield f"quota {group.name}: the limits of quota {each[1]} above it are not known"
                continue
            used, more = self._subtree.get(each, {}), added.subtree.get(each, {})
            yield from _over(ancestor, "max", ancestor.max, asked, used, more)

    def _keep_shape(self, groups: Groups) -> None:
        """Sum up the subtrees again when a group came, went or moved."""
        known = self._known
        if len(known) == len(groups) and all(known.get(key) is group for key, group in groups.items()):
            return
        self._known = dict(groups)
        self._names = frozenset(name for _, name in groups) - {ROOT_GROUP} | BUILT_IN_GROUPS
        self._serving = {}
        for key, group in groups.items():
            for namespace in group.namespaces if key[1] in self._names else ():
                self._serving.setdefault(namespace, set()).add(key)
        self._subtree = {}
        for key, amounts in self._own.items():
            for above in _line(key, groups):
                _add(self._subtree.setdefault(above, {}), amounts, 1)

    def _wrong_payer(self, claim: Claim, view: View, groups: Groups) -> Iterator[str]:
        pod = view.book.seen(claim.name)
        if not isinstance(pod, Pod):
            return
        label = pod.template.labels.get(names.LABEL_QUOTA_NAME)
        if label:
            wanted = label if label in self._names else DEFAULT_GROUP
            payers = {key for key in groups if key[1] == wanted}
        else:
            payers = self._serving.get(pod.namespace) or {key for key in groups if key[1] == DEFAULT_GROUP}
        if claim.quota not in ({f"{tree}/{name}" for tree, name in payers} or {""}):
            yield f"{'/'.join(claim.name)}: is charged to quota {claim.quota or 'none'}, which does not pay for it"
        if claim.non_preemptible != (pod.template.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false"):
            yield f"{'/'.join(claim.name)}: preemptible or not is read wrongly"


def _over(
    group: QuotaGroup, bound: str, limit: Mapping[str, int], asked: Mapping[str, int], used: Amounts, more: Amounts
) -> Iterator[str]:
    """Only resources that the group limits and the claim asks for are looked at."""
    for name in group.limits:
        amount = asked.get(name, 0)
        before = used.get(name, 0) + more.get(name, 0)
        if amount > 0 and before + amount > limit.get(name, 0):
            yield f"quota {group.name}: {before} + {amount} of {name} exceed its {bound} {limit.get(name, 0)}"


def _charge(
    claim: Claim,
    sign: int,
    own: dict[Key, Amounts],
    non_preemptible: dict[Key, Amounts],
    subtree: dict[Key, Amounts],
    groups: Groups,
) -> None:
    key = _key(claim)
    _add(own.setdefault(key, {}), claim.amounts, sign)
    if claim.non_preemptible:
        _add(non_preemptible.setdefault(key, {}), claim.amounts, sign)
    for above in _line(key, groups):
        _add(subtree.setdefault(above, {}), claim.amounts, sign)


def _key(claim: Claim) -> Key:
    tree, _, name = claim.quota.rpartition("/")
    return (tree, name)


def _line(key: Key, groups: Groups) -> list[Key]:
    group = groups.get(key)
    return [key, *((key[0], name) for name in (group.ancestors if group else ()))]


def _add(into: Amounts, amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + sign * amount
