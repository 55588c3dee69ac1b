"""Who may be made to leave together for the sake of quota: a pod, or all of a strict gang that can spare nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.giving import unprotected
from berth.placement_solver.core.displacers.lenders import Key, Lenders
from berth.placement_solver.core.displacers.one_node import about_to_leave
from berth.placement_solver.core.displacers.removable import LeavingUnit, Removable
from berth.placement_solver.core.displacers.seam import Asking, Ground
from berth.rules.preemption import Budgets, importance
from berth.rules.quota_reclaim import Charged, may_leave_within

ANY_PRIORITY: Final = 1 << 32
"""Above every priority: that of a pod does not keep what was lent."""


class GivingUnit(NamedTuple):
    """A unit, and its pods with what each group pays for them."""

    unit: LeavingUnit
    charged: tuple[Charged, ...]

    @property
    def order(self) -> tuple[int, tuple[int, str, str, str]]:
        """Fewer pods are more willing to go; of as many, the less important ones (the greater)."""
        return len(self.charged), importance(min(self.pods, key=importance))

    @property
    def pods(self) -> list[Pod]:
        """All who leave."""
        return [each.pod for each in self.charged]


class Found:
    """The units that were found for those who were refused before, for as long as nothing else is seen: many of a round
    ask for the same."""

    def __init__(self) -> None:
        self._at: object = None
        self._units: dict[object, list[GivingUnit]] = {}

    def of(self, moment: object, asked: object, find: Callable[[], list[GivingUnit]]) -> list[GivingUnit]:
        """What is asked for, at this moment."""
        if self._at != moment:
            self._at, self._units = moment, {}
        found = self._units.get(asked)
        if found is None:
            found = self._units[asked] = find()
        return found


class GivingUnits:
    """The units of a tree that might leave for one beneficiary, at one moment. `leaving` are the uids of those who do
    already: what they hold comes back by itself. `found`: what others have asked for at that moment."""

    def __init__(
        self,
        ground: Ground,
        tree: str,
        asking: Asking,
        leaving: Iterable[str],
        budgets: Budgets,
        found: Found | None = None,
    ) -> None:
        about = {pod.uid for pod in about_to_leave(ground.book)}
        self._ground = ground
        self._tree = tree
        self._removable = Removable(ground, ANY_PRIORITY, asking.refused, asking.now_s, about)
        self._leaving = frozenset(leaving)
        self._budgets = budgets
        self._found = found or Found()
        self._moment = (ground.moment(), int(asking.now_s))
        self._refused = asking.refused

    def lent(self, lenders: Lenders, asked: dict[str, int]) -> list[GivingUnit]:
        """What the lenders give back, the furthest over first; each no more than it has too much. `lenders` counts all
        of them as gone."""
        found = self._of(lenders.order, lambda each: lenders.rank(each.quota) < len(lenders.order))
        found.sort(key=lambda each: max(lenders.rank(one.quota) for one in each.charged))
        return [each for each in found if lenders.take_together(each.charged, asked)]

    def lower(self, key: Key, priority: int, *, keeps_default: bool) -> list[GivingUnit]:
        """Those of a group itself that are of lower priority; `keeps_default`: of the default group nobody."""
        return self._of([key[1]], lambda each: may_leave_within(priority, key[1], each, keeps_default=keeps_default))

    def all_of(self, key: Key) -> list[GivingUnit]:
        """Those of a group, whoever would gain."""
        return self._of([key[1]], lambda each: each.quota == key[1])

    def _of(self, groups: Iterable[str], may_leave: Callable[[Charged], bool]) -> list[GivingUnit]:
        """The units of these groups of which everybody may leave, the most willing first."""
        asked = frozenset(groups)
        key = (self._tree, asked, self._refused)
        found = self._found.of(self._moment, key, lambda: self._all_of(asked))
        found = [each for each in found if all(map(may_leave, each.charged))]
        free = {each.pod.uid for each in unprotected(list(_everybody(found)), self._budgets)}
        found = [each for each in found if all(pod.uid in free for pod in each.pods)]
        found.sort(key=lambda each: each.order[1], reverse=True)
        found.sort(key=lambda each: each.order[0])
        return found

    def _all_of(self, groups: Iterable[str]) -> list[GivingUnit]:
        nodes = {claim.node for group in groups for claim in self._ground.charged.of(self._tree, group)}
        known = self._ground.nodes.rows
        units = self._removable.units_on(sorted(node for node in nodes if node in known))
        return [each for unit in units if (each := self._charged(unit)) is not None]

    def _charged(self, unit: LeavingUnit) -> GivingUnit | None:
        charged: list[Charged] = []
        for pod, claim in unit.everybody:
            tree, _, group = claim.quota.rpartition("/")
            if not claim.quota or tree != self._tree or pod.deleting or pod.uid in self._leaving:
                return None
            charged.append(Charged(pod, group, claim.charged))
        return GivingUnit(unit, tuple(charged))


def _everybody(units: Sequence[GivingUnit]) -> Iterator[Charged]:
    return iter({each.pod.uid: each for unit in units for each in unit.charged}.values())
