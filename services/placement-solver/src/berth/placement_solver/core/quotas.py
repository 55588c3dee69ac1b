"""How much of each quota group is in use, and whether a pod may be charged to one.

Limits come from QUOTA; use is counted here, from the claims that hold. A pod is charged to its group and to every
ancestor; the group's runtime binds it, an ancestor binds by its max, or by its runtime as well where quota-manager is
set so, a non-preemptible pod by the group's min (rule R14, and the quota paragraph of docs/transaction.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from berth.contracts import subjects
from berth.contracts.base import Reason
from berth.contracts.quota import QuotaGroup, QuotaRules
from berth.placement_solver.core.quota_limits import Over, over, repair_of
from berth.rules.quota_of_pod import BUILT_IN_GROUPS, DEFAULT_GROUP, QuotaClaim, QuotaMap
from berth.rules.quota_payer import group_in, payer_of

UNLIMITED = 1 << 59
"""A max of this and above limits nothing (the built-in groups of the protocol have a fifth of the largest integer)."""


class Quotas:
    """Groups by `(tree, name)`, and what is in use below each."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], QuotaGroup] = {}
        self.version = 0
        """Another one after each message."""
        self._trees_of: dict[str, list[str]] = {}
        """By name of a group: the trees that show it, the one seen last at the end."""
        self._own: dict[tuple[str, str], dict[str, int]] = {}
        self._own_non_preemptible: dict[tuple[str, str], dict[str, int]] = {}
        self._used: dict[tuple[str, str], dict[str, int]] = {}
        self._map = QuotaMap()
        self._joined: dict[tuple[str, str], set[tuple[str, str]]] = {}
        """By group: it, if it has moved, and those that came below it."""
        self._trees: dict[str, int] = {}
        self.stamped: Callable[[str], int | None] = lambda account: None
        """The revision that LEDGER names on an account, None where it has none."""
        self.mapping_changed = False
        """Which group pays for a pod, or how much, may have changed since this was last set to False."""
        self.rules = QuotaRules()
        """As quota-manager is set."""

    def reset(self) -> None:
        """QUOTA starts over; use stays counted."""
        for key in list(self.groups):
            self.see(*key, None)
        self._trees.clear()

    def see(self, tree: str, name: str, group: QuotaGroup | None) -> None:
        """Take in a group, or with None its end."""
        key = (tree, name)
        before = self.groups.get(key)
        line = self.line(key)
        self.version += 1
        if group is None:
            self.groups.pop(key, None)
        else:
            self.groups[key] = group
        self._see_name(key, before, group)
        self._see_move(key, before, group)
        self._move_use(key, line)

    def _see_name(self, key: tuple[str, str], before: QuotaGroup | None, group: QuotaGroup | None) -> None:
        """Who pays may be another: a group came, went, is in another tree, or serves other namespaces."""
        tree, name = key
        if group is None:
            self._map.drop(name, f"/{tree}")
            trees = self._trees_of.get(name, [])
            if tree in trees:
                trees.remove(tree)
            if not trees:
                self._trees_of.pop(name, None)
        else:
            self._map.put(QuotaClaim(name, f"/{tree}", tuple(group.namespaces)))  # a tree is no namespace
            trees = self._trees_of.setdefault(name, [])
            if tree not in trees:
                trees.append(tree)
        if before is None or group is None or before.namespaces != group.namespaces:
            self.mapping_changed = True
        if group is not None and name == DEFAULT_GROUP and group.rules != self.rules:
            self.rules = group.rules
            self._map.uses_default = self.rules.uses_default
            self.mapping_changed = True

    def _move_use(self, key: tuple[str, str], before: list[tuple[str, str]]) -> None:
        """What is charged to a group leaves those that were above it, and counts for those that are."""
        line, own = self.line(key), self._own.get(key)
        if own and line != before:
            for each in before:
                _add(self._used.setdefault(each, {}), own, -1)
            for each in line:
                _add(self._used.setdefault(each, {}), own, 1)

    def knows(self, name: str) -> bool:
        """A group of this name is there, in whichever tree."""
        return name in self._trees_of

    def tree_of(self, name: str) -> str | None:
        """The tree of a group; of one that is moving, the one it was seen in last. None: there is no such group."""
        trees = self._trees_of.get(name)
        return trees[-1] if trees else None

    def group_of(self, label: str | None, namespace: str, paid: str = "") -> tuple[str, str] | None:
        """The group that a pod is charged to, as tree and name; None when no known group limits it.

        `paid`: who paid at the bind, as `tree/group`; empty for a pod that is not bound.
        """
        name = payer_of(self._map, paid, label, namespace) if self.groups else None
        tree = self.tree_of(name or "")
        if name is not None and tree is not None:
            return (tree, name)
        return (paid.rpartition("/")[0], group_in(paid)) if paid and not self.groups else None

    def charge(self, quota: str, amounts: Mapping[str, int], sign: int, *, non_preemptible: bool) -> None:
        """Count a claim in (sign 1) or out (-1); `quota` is `tree/group`, `non_preemptible` a non-preemptible pod."""
        tree, _, name = quota.rpartition("/")
        key = (tree, name)
        _add(self._own.setdefault(key, {}), amounts, sign)
        if non_preemptible:
            _add(self._own_non_preemptible.setdefault(key, {}), amounts, sign)
        for each in self.line(key):
            _add(self._used.setdefault(each, {}), amounts, sign)

    def refusal(self, key: tuple[str, str], amounts: Mapping[str, int], *, non_preemptible: bool) -> Reason | None:
        """Why these amounts cannot be charged to the group now; None when they can.

        A group whose ancestors are not all known is not charged: what is published anew comes one by one.
        """
        group = self.groups.get(key)
        for name in group.ancestors if group is not None else ():
            if (key[0], name) not in self.groups:
                message = f"quota {key[1]}: the limits of quota {name} above it are not known yet"
                return Reason(
                    code="quota", message=message, repair="none needed; if this lasts, see whether quota-manager works"
                )
        first = next(self._over(key, amounts, non_preemptible), None)
        if first is None:
            return None
        return Reason(code="quota", message=first.message, repair=repair_of(self._over(key, amounts, non_preemptible)))

    def exceeded(self, key: tuple[str, str], amounts: Mapping[str, int], *, non_preemptible: bool) -> list[Over]:
        """Every limit that a charge of these amounts would exceed, that of the group itself first."""
        return list(self._over(key, amounts, non_preemptible))

    def is_promised(self, key: tuple[str, str], amounts: Mapping[str, int]) -> bool:
        """Whether the group stays within its min, as far as that can be honoured now, in all that is asked for."""
        group = self.groups.get(key)
        asked = [name for name in group.limits if amounts.get(name, 0) > 0] if group is not None else []
        if group is None or not asked:
            return False
        used = self.used(key)
        return all(used.get(name, 0) + amounts[name] <= group.effective_min.get(name, 0) for name in asked)

    def _over(self, key: tuple[str, str], amounts: Mapping[str, int], non_preemptible: bool) -> Iterator[Over]:
        """Every limit that the amounts would exceed, that of the group itself first."""
        group = self.groups.get(key)
        if group is None:
            return
        if non_preemptible:
            # A minimum that does not name a resource promises nothing about it.
            promised = {name: amount for name, amount in amounts.items() if name in group.min}
            yield from over(group, "min", group.min, self._own_non_preemptible.get(key, {}), promised)
        yield from over(group, "runtime", group.runtime, self._used.get(key, {}), amounts)
        for name in group.ancestors:
            above = self.groups.get((key[0], name))
            if above is not None:
                used = self._used.get((key[0], name), {})
                yield from over(above, "max", above.max, used, amounts)
                if above.rules.checks_parents:
                    yield from over(above, "runtime", above.runtime, used, amounts)

    def accounts(self, key: tuple[str, str]) -> dict[str, int]:
        """The accounts that a pod of the group charges, with the revision known of each (R14).

        All of its line: a limit that another solver has read of may have appeared on any. A built-in group is charged
        where it limits something, or has been: every pod without a quota would meet there. With them the groups that
        have joined the line, until a plan has stamped them since: where they are, and in the trees that they came from.
        """
        line = [each for each in self.line(key) if each in self.groups]
        result = {
            subjects.quota_account(*each): self._revision(each)
            for each in line
            if each[1] not in BUILT_IN_GROUPS
            or limits_anything(self.groups[each])
            or self.stamped(subjects.quota_account(*each)) is not None
        }
        for above in line:
            for each in self._joined.get(above, ()):
                moved = self.groups[each].moved
                for tree in (each[0], *self.groups[each].former_trees):
                    account = subjects.quota_account(tree, each[1])
                    if (self.stamped(account) or 0) < moved:
                        result[account] = self._revision(each)
        return result

    def _revision(self, key: tuple[str, str]) -> int:
        """The newest revision that is known to concern a group: its own, or that of a move into or out of its tree."""
        return max(self.groups[key].revision, self._trees.get(key[0], 0))

    def _see_move(self, key: tuple[str, str], before: QuotaGroup | None, group: QuotaGroup | None) -> None:
        """Keep who has moved, below itself and below each group that it has joined."""
        for sign, each in ((-1, before), (1, group)):
            for name in (key[1], *each.ancestors) if each is not None and each.moved else ():
                joined = self._joined.setdefault((key[0], name), set())
                joined.discard(key) if sign < 0 else joined.add(key)
        if group is not None and group.moved:
            for tree in (key[0], *group.former_trees):
                self._trees[tree] = max(self._trees.get(tree, 0), group.moved)

    def used(self, key: tuple[str, str]) -> Mapping[str, int]:
        """What is in use in the group's whole subtree."""
        return self._used.get(key, {})

    def used_for_good(self, key: tuple[str, str]) -> Mapping[str, int]:
        """What non-preemptible pods of the group itself use."""
        return self._own_non_preemptible.get(key, {})

    def line(self, key: tuple[str, str]) -> list[tuple[str, str]]:
        """A group and those above it, by tree and name."""
        group = self.groups.get(key)
        return [key, *((key[0], name) for name in (group.ancestors if group else ()))]


def limits_anything(group: QuotaGroup) -> bool:
    """Whether any resource of the group is bounded."""
    return any(group.max.get(name, UNLIMITED) < UNLIMITED for name in group.limits)


def _add(into: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        if amount:
            into[name] = into.get(name, 0) + sign * amount
