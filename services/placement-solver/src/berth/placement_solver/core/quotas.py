"""How much of each quota group is in use, and whether a pod may be charged to one.

Limits come from QUOTA; use is counted here, from the claims that hold. A pod is charged to its group and to every
ancestor; the group's runtime binds it, an ancestor binds by its max, a non-preemptible pod by the group's min (rule
R14, and the quota paragraph of docs/transaction.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.contracts import subjects
from berth.contracts.base import Reason
from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.quota_limits import Over, over, repair_of
from berth.rules.quota_of_pod import QuotaMap

UNLIMITED = 1 << 59
"""A max of this and above limits nothing (the built-in groups of the protocol have a fifth of the largest integer)."""


class Quotas:
    """Groups by `(tree, name)`, and what is in use below each."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], QuotaGroup] = {}
        self._tree_of: dict[str, str] = {}
        self._own: dict[tuple[str, str], dict[str, int]] = {}
        self._own_non_preemptible: dict[tuple[str, str], dict[str, int]] = {}
        self._used: dict[tuple[str, str], dict[str, int]] = {}
        self._map: QuotaMap | None = None
        self.mapping_changed = False
        """Which group pays for a pod may have changed since this was last set to False."""

    def reset(self) -> None:
        """QUOTA starts over; use stays counted."""
        self.groups.clear()
        self._tree_of.clear()
        self._map = None
        self._sum_up()

    def see(self, tree: str, name: str, group: QuotaGroup | None) -> None:
        """Take in a group, or with None its end."""
        before = self.groups.get((tree, name))
        if group is None:
            self.groups.pop((tree, name), None)
            if self._tree_of.get(name) == tree:
                del self._tree_of[name]
                self._tree_of.update((each, other) for other, each in sorted(self.groups) if each == name)
        else:
            self.groups[tree, name] = group
            self._tree_of[name] = tree
        if before is None or group is None or before.namespaces != group.namespaces:
            self._map = None
            self.mapping_changed = True
        if before is None or group is None or before.ancestors != group.ancestors:
            self._sum_up()

    def knows(self, name: str) -> bool:
        """A group of this name is there, in whichever tree."""
        return name in self._tree_of

    def group_of(self, label: str | None, namespace: str) -> tuple[str, str] | None:
        """The group that a pod is charged to, as tree and name; None when no known group limits it."""
        if not self.groups:
            return None
        if self._map is None:
            served = {ns: name for (_, name), group in sorted(self.groups.items()) for ns in group.namespaces}
            self._map = QuotaMap((name for _, name in self.groups), served)
        name = self._map.group_of(label, namespace)
        tree = self._tree_of.get(name or "")
        return (tree, name) if name is not None and tree is not None else None

    def charge(self, quota: str, amounts: Mapping[str, int], sign: int, *, non_preemptible: bool) -> None:
        """Count a claim in (sign 1) or out (-1); `quota` is `tree/group`, `non_preemptible` a non-preemptible pod."""
        tree, _, name = quota.rpartition("/")
        key = (tree, name)
        _add(self._own.setdefault(key, {}), amounts, sign)
        if non_preemptible:
            _add(self._own_non_preemptible.setdefault(key, {}), amounts, sign)
        for each in self._line(key):
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
                yield from over(above, "max", above.max, self._used.get((key[0], name), {}), amounts)

    def accounts(self, key: tuple[str, str]) -> dict[str, int]:
        """The accounts that a pod of the group charges, with the revision known of each (R14)."""
        result: dict[str, int] = {}
        for tree, name in self._line(key):
            group = self.groups.get((tree, name))
            if group is not None and limits_anything(group):
                result[subjects.quota_account(tree, name)] = group.revision
        return result

    def used(self, key: tuple[str, str]) -> Mapping[str, int]:
        """What is in use in the group's whole subtree."""
        return self._used.get(key, {})

    def _line(self, key: tuple[str, str]) -> list[tuple[str, str]]:
        group = self.groups.get(key)
        return [key, *((key[0], name) for name in (group.ancestors if group else ()))]

    def _sum_up(self) -> None:
        self._used = {}
        for key, amounts in self._own.items():
            for each in self._line(key):
                _add(self._used.setdefault(each, {}), amounts, 1)


def limits_anything(group: QuotaGroup) -> bool:
    """Whether any resource of the group is bounded."""
    return any(group.max.get(name, UNLIMITED) < UNLIMITED for name in group.limits)


def _add(into: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        if amount:
            into[name] = into.get(name, 0) + sign * amount
