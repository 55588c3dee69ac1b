"""Gang groups of which some members lie together and others elsewhere, or anywhere: one part after the other.

Each part is planned on what the parts before it have left: who leaves for them has gone, and their members are there.
Those that have to lie together come first, since they have fewer places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Self

from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.displacers.gathered import GatheredJob
from berth.placement_solver.core.displacers.removable import LeavingUnit
from berth.placement_solver.core.plan import Candidate, Placement, Unit
from berth.transaction.claims import Claim

UnitsOn = Callable[[Iterable[str]], list[LeavingUnit]]


class Part(NamedTuple):
    """Members that are placed as one job; `together` where they have to lie in one domain."""

    candidates: tuple[Candidate, ...]
    together: GatheredJob | None = None


def parts_of(unit: Unit, candidates: Sequence[Candidate]) -> list[Part]:
    """Those of each place in the network that is asked for, and then those who lie anywhere."""
    some = unit._replace(candidates=tuple(candidates))
    gatherers = candidates[0].cls.rules.gatherers if unit.needed else ()
    parts = [Part(job.members, GatheredJob(each, job)) for each in gatherers for job in each.jobs(some)]
    gathered = {member.name for part in parts for member in part.candidates}
    rest = tuple(each for each in candidates if each.name not in gathered)
    return [*parts, Part(rest)] if rest else parts


class Standing:
    """What the parts before have taken and made free, in the columns until the end of a `with` block."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._lifted: list[Claim] = []
        self._placed: list[Claim] = []
        self.going: set[str] = set()
        """The uids of those who leave."""
        self._whole: dict[tuple[str, ...], LeavingUnit] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for claim in reversed(self._placed):
            self._capacity.apply(claim, -1)
        for claim in self._lifted:
            self._capacity.apply(claim, 1)

    def add(self, placements: Iterable[Placement], units: Iterable[LeavingUnit]) -> None:
        """A part has these places once those have left. What they use of their quota is free later."""
        self.lift(lifted(units, self.going))
        self.going.update(each.pod.uid for unit in units for each in unit.everybody)
        for placement in placements:
            self._capacity.apply(placement.claim, 1)
            self._placed.append(placement.claim)

    def lift(self, claims: Iterable[Claim]) -> None:
        """These have left."""
        for claim in claims:
            self._capacity.apply(claim, -1)
            self._lifted.append(claim)

    def put_back(self, claims: Collection[Claim]) -> None:
        """These have not left after all."""
        uids = {claim.uid for claim in claims}
        self._lifted = [claim for claim in self._lifted if claim.uid not in uids]
        for claim in claims:
            self._capacity.apply(claim, 1)

    def others_on(self, units_on: UnitsOn) -> UnitsOn:
        """Who else might leave."""

        def others(nodes: Iterable[str]) -> list[LeavingUnit]:
            found = []
            for unit in units_on(nodes):
                along = tuple(each for each in unit.along if each.pod.uid not in self.going)
                if not any(each.pod.uid in self.going for each in unit.leavers):
                    other = unit._replace(along=along)
                    if len(along) < len(unit.along):
                        self._whole[_uids(other)] = unit
                    found.append(other)
            return found

        return others

    def whole(self, unit: LeavingUnit) -> LeavingUnit:
        """One of the others with those, too, who leave for a part before: they leave with it even if not for that."""
        return self._whole.get(_uids(unit), unit)


def _uids(unit: LeavingUnit) -> tuple[str, ...]:
    return tuple(each.pod.uid for each in unit.leavers)


def lifted(units: Iterable[LeavingUnit], but: Collection[str] = ()) -> list[Claim]:
    """What is free once these have left, beside what is charged to quotas; of everybody `but` those."""
    leavers = {each.pod.uid: each for unit in units for each in unit.everybody if each.pod.uid not in but}
    return [each.claim._replace(quota="") for each in leavers.values()]
