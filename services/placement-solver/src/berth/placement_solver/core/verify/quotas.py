"""Quota use, counted once more from the claims, and the limits of QUOTA held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from berth.contracts import names
from berth.contracts.quota import QuotaGroup, QuotaRules
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.hooks import hook_problems
from berth.placement_solver.core.verify.view import View
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP
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
        self._version = -1
        self._trees: dict[str, set[str]] = {}
        """By name of a group: the trees that it is in."""
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
        self._keep_shape(view)
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
        self._keep_shape(view)
        return lambda key: self._subtree.get(key, {})

    def _over_limits(self, claim: Claim, groups: Groups, added: _Added) -> Iterator[str]:
        """Limits hold at the moment of charging: after the claims before this one, whatever comes later."""
        key, *above = _line(_key(claim), groups)
        group = groups.get(key)
        if group is None:
            return
        asked = claim.charged
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
            if ancestor.rules.checks_parents:
                yield from _over(ancestor, "runtime", ancestor.runtime, asked, used, more)

    def _keep_shape(self, view: View) -> None:
        """A group came, went or moved: what its own pods are charged counts for those above it now."""
        table = view.quotas
        if table.version == self._version:
            return
        self._version = table.version
        groups, known = table.groups, self._known
        changed = [key for key, group in groups.items() if known.get(key) is not group]
        for key in [*changed, *(known.keys() - groups.keys())]:
            before, group, own = known.get(key), groups.get(key), self._own.get(key)
            lines = _line(key, known), _line(key, groups)
            if own and lines[0] != lines[1]:
                for sign, line in zip((-1, 1), lines, strict=True):
                    for each in line:
                        _add(self._subtree.setdefault(each, {}), own, sign)
            for namespace in before.namespaces if before is not None else ():
                self._serving[namespace].discard(key)
            for namespace in group.namespaces if group is not None else ():
                self._serving.setdefault(namespace, set()).add(key)
            if group is None:
                del known[key]
                self._trees[key[1]].discard(key[0])
            else:
                known[key] = group
                self._trees.setdefault(key[1], set()).add(key[0])

    def _wrong_payer(self, claim: Claim, view: View, groups: Groups) -> Iterator[str]:
        pod = view.book.seen(claim.name)
        if not isinstance(pod, Pod):
            return
        rules = _rules(groups)
        if claim.quota not in ({f"{tree}/{name}" for tree, name in self._payers(pod, rules)} or {""}):
            yield f"{'/'.join(claim.name)}: is charged to quota {claim.quota or 'none'}, which does not pay for it"
        if claim.uncharged != (pod.template.overhead if rules.ignores_overhead else {}):
            yield f"{'/'.join(claim.name)}: is charged {claim.charged} to its quota, which is not what it has to pay"
        yield from hook_problems(claim, pod, rules, view.payers.surcharges.known)
        if claim.non_preemptible != (pod.template.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false"):
            yield f"{'/'.join(claim.name)}: preemptible or not is read wrongly"

    def _payers(self, pod: Pod, rules: QuotaRules) -> set[Key]:
        """The groups that may pay for a pod that is not bound."""
        if pod.deleting and rules.ignores_terminating:
            return set()
        label = pod.template.labels.get(names.LABEL_QUOTA_NAME, "")
        if label and (label == ROOT_GROUP or not self._trees.get(label)):
            label = DEFAULT_GROUP if rules.uses_default else ""
        if not label and rules.uses_default:
            serving = self._serving.get(pod.namespace)
            if serving:
                return serving
            label = DEFAULT_GROUP
        return {(tree, label) for tree in self._trees.get(label, ())}


def _rules(groups: Groups) -> QuotaRules:
    """How quota-manager is set."""
    group = groups.get(("", DEFAULT_GROUP))
    return group.rules if group is not None else QuotaRules()


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
    _add(own.setdefault(key, {}), claim.charged, sign)
    if claim.non_preemptible:
        _add(non_preemptible.setdefault(key, {}), claim.charged, sign)
    for above in _line(key, groups):
        _add(subtree.setdefault(above, {}), claim.charged, sign)


def _key(claim: Claim) -> Key:
    tree, _, name = claim.quota.rpartition("/")
    return (tree, name)


def _line(key: Key, groups: Groups) -> list[Key]:
    group = groups.get(key)
    return [key, *((key[0], name) for name in (group.ancestors if group else ()))]


def _add(into: Amounts, amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + sign * amount
