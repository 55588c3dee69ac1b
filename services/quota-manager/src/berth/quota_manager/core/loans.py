"""What of the minimums is lent now, and to whom: the answer to "why is my runtime smaller than my min?".

On one level and for one resource, a child whose runtime is below its effective min leaves something idle; one whose
runtime is above it has borrowed. What nobody was promised goes to borrowers first, the rest of what they have comes
from those with idle minimum, in proportion, by largest remainder: what is lent on a level is what is borrowed on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.sharing import largest_remainder
from berth.resources.amounts import Amounts

NAMES_MAX: Final = 8
"""So many others are named, the largest parts first."""


class Loan(NamedTuple):
    """What one group has lent and borrowed, by resource, and whom it concerns."""

    lent: Amounts
    borrowed: Amounts
    lent_to: tuple[str, ...]
    borrowed_from: tuple[str, ...]


NONE: Final = Loan({}, {}, (), ())


class Loans:
    """The loans of all levels. A level is worked out again only when something on it has moved."""

    def __init__(self) -> None:
        self._touched: dict[Group, None] = {}
        self._of: dict[str, Loan] = {}

    def touch(self, groups: Iterable[Group]) -> None:
        """The runtime, or the effective min, of these groups is another one."""
        for group in groups:
            if group.parent is not None:
                self._touched[group.parent] = None

    def reset(self) -> None:
        """The groups are others than before."""
        self._touched.clear()
        self._of.clear()

    def settle(self) -> set[str]:
        """Works out the levels that were touched; the groups of which something changed."""
        changed: set[str] = set()
        touched, self._touched = self._touched, {}
        for parent in touched:
            for name, loan in loans_below(parent).items():
                if self._of.get(name, NONE) != loan:
                    self._of[name] = loan
                    changed.add(name)
        return changed

    def of(self, name: str) -> Loan:
        """Of one group, as of the last time."""
        return self._of.get(name, NONE)


def loans_below(parent: Group) -> dict[str, Loan]:
    """The loans of one level, by name of the child."""
    lent: dict[str, Amounts] = {}
    borrowed: dict[str, Amounts] = {}
    for key, children in parent.sharers.items():
        idle: Amounts = {}
        beyond: Amounts = {}
        promised = 0
        for child in children:
            minimum = child.effective_min.get(key, 0)
            promised += minimum
            difference = child.runtime.get(key, 0) - minimum
            if difference < 0:
                idle[child.name] = -difference
            elif difference > 0:
                beyond[child.name] = difference
        taken = sum(beyond.values()) - max(0, parent.runtime.get(key, 0) - promised)
        taken = min(taken, sum(idle.values()))
        for parts, of in ((idle, lent), (beyond, borrowed)):
            for name, amount in largest_remainder(taken, parts).items():
                if amount:
                    of.setdefault(name, {})[key] = amount
    names = {child.name for child in parent.children}
    lenders, borrowers = _Ends(lent), _Ends(borrowed)
    return {
        name: Loan(
            lent.get(name, {}),
            borrowed.get(name, {}),
            borrowers.of(lent.get(name)),
            lenders.of(borrowed.get(name)),
        )
        if name in lent or name in borrowed
        else NONE
        for name in sorted(names)
    }


class _Ends:
    """The other end of each loan: who has a part of a resource, largest parts first."""

    def __init__(self, parts: dict[str, Amounts]) -> None:
        self._ordered = _by_size(parts)
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}
        """By resources: mostly all groups of a level have lent, or borrowed, of the same."""

    def of(self, mine: Amounts | None) -> tuple[str, ...]:
        """The others, for one who has these amounts at this end."""
        if not mine:
            return ()
        keys = tuple(sorted(mine))
        found = self._known.get(keys)
        if found is None:
            others = (name for key in keys for name in self._ordered.get(key, ())[:NAMES_MAX])
            found = self._known[keys] = tuple(dict.fromkeys(others))[:NAMES_MAX]
        return found


def _by_size(parts: dict[str, Amounts]) -> dict[str, list[str]]:
    """By resource, who has a part of it, largest parts first."""
    keys = {key for amounts in parts.values() for key in amounts}
    return {
        key: sorted((name for name in parts if key in parts[name]), key=lambda name: (-parts[name][key], name))
        for key in sorted(keys)
    }
