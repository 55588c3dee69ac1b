"""What quota groups have lent and lack: who uses more than its runtime, and which limits a charge exceeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from berth.placement_solver.core.quotas import Quotas
from berth.rules.quota_reclaim import Charged

Key = tuple[str, str]
"""Tree and name of a group."""


class Share(NamedTuple):
    """What one group is asked to pay for, and whether any of that is non-preemptible."""

    key: Key
    amounts: Mapping[str, int]
    non_preemptible: bool


class Limits:
    """The limits that charges to groups of one tree exceed, and what of it is left once some have left."""

    def __init__(self, quotas: Quotas, tree: str, shares: Iterable[Share]) -> None:
        self._quotas = quotas
        self._tree = tree
        self._short: dict[tuple[str, str], int] = {}
        self.can_be_helped = True
        """Whether it helps that others leave: not against a limit below what is asked for, nor where only pods that
        nobody may make leave use what is limited."""
        with ExitStack() as charged:
            for key, amounts, non_preemptible in shares:
                for each in quotas.exceeded(key, amounts, non_preemptible=non_preemptible):
                    # Groups above several of them are asked for each beside those before it: the last word counts.
                    self._short[each.group.name, each.name] = each.used + each.asked - each.allowed
                    self.can_be_helped &= each.bound != "min" and each.asked <= each.allowed
                text = "/".join(key)
                quotas.charge(text, amounts, 1, non_preemptible=non_preemptible)
                charged.callback(quotas.charge, text, amounts, -1, non_preemptible=non_preemptible)

    @property
    def is_over(self) -> bool:
        """Some limit is exceeded still."""
        return any(amount > 0 for amount in self._short.values())

    def is_helped_by(self, each: Charged) -> bool:
        """Whether less is lacking when this one leaves."""
        return any(
            self._short.get((group, name), 0) > 0 and amount > 0
            for group in self._line(each)
            for name, amount in each.amounts.items()
        )

    def count(self, each: Charged, sign: int) -> None:
        """One leaves (-1), or stays after all (1)."""
        for group in self._line(each):
            for name, amount in each.amounts.items():
                if (group, name) in self._short:
                    self._short[group, name] += sign * amount

    def _line(self, each: Charged) -> list[str]:
        group = self._quotas.groups.get((self._tree, each.quota))
        return [each.quota, *(group.ancestors if group is not None else ())]


class Lenders:
    """The groups of a tree that use more than their runtime of something, the furthest over first.

    `used` is what groups use without those that are leaving already, which comes back by itself.
    """

    def __init__(self, quotas: Quotas, tree: str, groups: Iterable[str], used: Mapping[str, Mapping[str, int]]) -> None:
        self._over: dict[str, dict[str, int]] = {}
        ratios: dict[str, float] = {}
        for name in groups:
            group = quotas.groups.get((tree, name))
            if group is None:
                continue
            held = used.get(name, {})
            over = {
                resource: excess
                for resource in group.limits
                if (excess := held.get(resource, 0) - group.runtime.get(resource, 0)) > 0
            }
            if over:
                self._over[name] = over
                ratios[name] = max(much / max(group.runtime.get(resource, 0), 1) for resource, much in over.items())
        self.order = sorted(self._over, key=lambda name: (-ratios[name], name))

    def rank(self, group: str) -> int:
        """Its place in the order; behind all others if it has lent nothing."""
        return self.order.index(group) if group in self._over else len(self.order)

    def copy(self) -> Lenders:
        """As it is, for another try."""
        twin = object.__new__(Lenders)
        twin._over = {name: dict(over) for name, over in self._over.items()}
        twin.order = self.order
        return twin

    def take(self, each: Charged, asked: Mapping[str, int]) -> bool:
        """A pod leaves, if its group still uses more than its runtime of something that it has and that is asked."""
        return self.take_together((each,), asked)

    def take_together(self, unit: Sequence[Charged], asked: Mapping[str, int]) -> bool:
        """Pods leave together, if the group of each still uses more than its runtime of something that its pods have
        and that is asked."""
        amounts: dict[str, dict[str, int]] = {}
        for each in unit:
            of_group = amounts.setdefault(each.quota, {})
            for name, amount in each.amounts.items():
                of_group[name] = of_group.get(name, 0) + amount
        for group, held in amounts.items():
            over = self._over.get(group, {})
            if not any(
                over.get(name, 0) > 0 and amount > 0 and asked.get(name, 0) > 0 for name, amount in held.items()
            ):
                return False
        for group, held in amounts.items():
            over = self._over[group]
            for name, amount in held.items():
                if name in over:
                    over[name] -= amount
        return True
