"""What people should hear of: groups that use more than they may, objects that are wrong. Each said once.

A group is over its runtime for a moment whenever demand moves; only what lasts is worth an event.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.quota_manager.core.group import Problem
from berth.rules.quota_reclaim import is_over, over


class Overuse(NamedTuple):
    """A group went over its runtime, or came back (`excess` is empty)."""

    group: str
    excess: dict[str, int]


class Alarms:
    """Remembers what was said already."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self._over: dict[str, tuple[float, dict[str, int]]] = {}
        self._said: set[str] = set()
        self._problems: dict[str, tuple[Problem, ...]] = {}

    @property
    def over(self) -> int:
        """How many groups are over their runtime now."""
        return len(self._over)

    def measure(self, group: str, used: Mapping[str, int], runtime: Mapping[str, int], now: float) -> None:
        """The present figures of a group."""
        if not is_over(used, runtime):
            self._over.pop(group, None)
        elif group not in self._said or group not in self._over:  # of what was said already nobody asks by how much
            since = self._over[group][0] if group in self._over else now
            self._over[group] = (since, over(used, runtime))

    def forget_all_but(self, groups: Iterable[str]) -> None:
        """Groups that no longer exist are over nothing."""
        for group in self._over.keys() - set(groups):
            del self._over[group]

    def forget(self, group: str) -> None:
        """A group that no longer exists is over nothing."""
        self._over.pop(group, None)

    def overuse(self, now: float) -> list[Overuse]:
        """What changed since it was last asked."""
        ended = sorted(self._said - self._over.keys())
        began = sorted(
            group for group, (since, _) in self._over.items() if group not in self._said and now - since >= self.grace_s
        )
        self._said.difference_update(ended)
        self._said.update(began)
        return [Overuse(group, {}) for group in ended] + [Overuse(group, self._over[group][1]) for group in began]

    def refusals(self, problems: Iterable[Problem]) -> dict[str, tuple[Problem, ...]]:
        """Objects of which something else is wrong than was said, with all that is; repaired ones are dropped."""
        found: dict[str, list[Problem]] = {}
        for problem in problems:
            found.setdefault(problem.object, []).append(problem)
        present = {owner: tuple(listed) for owner, listed in found.items()}
        news = {owner: listed for owner, listed in present.items() if self._problems.get(owner) != listed}
        self._problems = present
        return news
