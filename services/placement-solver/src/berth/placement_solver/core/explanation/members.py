"""Which constraints together forbid a gang: found by placing its members with some of the constraints left out.

Members share what is free, so no node alone tells. Every try is a real one, on the capacity there is, and taken back.
A set forbids the gang if with nothing but it no placement is found; what is missing from such a set lets it in. The
smallest set is the smallest that hits all that is missing from the sets that were found to let it in.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from berth.placement_solver.core.explanation.forbids import Element, exceeded, quota_elements
from berth.placement_solver.core.explanation.hitting import smallest_hitting
from berth.placement_solver.core.explanation.parts import Part, Relaxed, parts_of, words_of
from berth.placement_solver.core.plan import Candidate, Placement, Unit
from berth.placement_solver.core.quota_limits import Over
from berth.placement_solver.core.solve import Solver
from berth.placement_solver.core.trial import Trial

PLACED_MAX: Final = 4_096
"""So many members are placed in all, over all tries; then the set at hand is the answer."""
GANG: Final = "gang"
PLAN: Final = "explain"

Steps: TypeAlias = "Generator[None, None, Found | None]"
"""Bounded pieces of work."""


class Found(NamedTuple):
    """`elements` forbid the gang together. `is_smallest`: no smaller set does; else some of it may not be needed."""

    elements: tuple[Element, ...]
    is_smallest: bool


class Members:
    """One gang group that was refused, under its constraints or some of them."""

    def __init__(self, unit: Unit, solver: Solver) -> None:
        self._unit = unit
        self._solver = solver
        self._needed = sum(unit.needed.values())
        self.placed = 0
        self._parts: dict[int, tuple[Part, ...]] = {}
        elements: dict[tuple[str, str], Element] = {}
        for each in unit.candidates:
            for reason in (*each.cls.refusals, *each.refusals):
                elements.setdefault((reason.code, reason.field), Element(reason.code, reason.field, reason.message))
        self._over = self._exceeded()
        for element in quota_elements(self._over):
            elements.setdefault((element.code, element.what), element)
        for each in unit.candidates:
            for part in self._parts_of(each):
                elements.setdefault((part.code, part.what), Element(part.code, part.what, self._words_of(part)))
        self._gatherers = tuple(
            each.name
            for each in (unit.candidates[0].cls.rules.gatherers if unit.candidates else ())
            if next(iter(each.jobs(unit)), None) is not None
        )
        for name in self._gatherers:
            elements[name, "domain"] = Element(name, "domain", "its members have to lie together")
        minimum = f"{self._needed} members must start together"
        elements[GANG, unit.id] = Element(GANG, unit.id, minimum)
        self.elements = tuple(elements.values())

    def smallest(self) -> Steps:
        """The smallest set that forbids it; None: all of them together do not."""
        everything = (1 << len(self.elements)) - 1
        if self._fits(everything):
            return None
        yield
        missing: list[int] = []
        while self.placed < PLACED_MAX:
            hit = smallest_hitting(missing)
            if hit is None:
                return None  # it fits nowhere whatever is left out: there is no node
            if not self._fits(hit.bits):
                return Found(self._listed(hit.bits), hit.is_smallest)
            yield
            grown = hit.bits
            for index in range(len(self.elements)):
                bit = 1 << index
                if not grown & bit:
                    if self._fits(grown | bit):
                        grown |= bit
                    yield
            missing.append(everything & ~grown)
        return Found(self._listed(everything), False)

    def _listed(self, bits: int) -> tuple[Element, ...]:
        return tuple(each for index, each in enumerate(self.elements) if bits >> index & 1)

    def _fits(self, bits: int) -> bool:
        """Whether as many as are needed find a place where only these constraints hold."""
        kept = {(each.code, each.what) for each in self._listed(bits)}
        unit, together = self._unit, (GANG, self._unit.id) in kept
        needed = dict(unit.needed) if together else {}
        for each in unit.candidates:
            if any((reason.code, reason.field) in kept for reason in (*each.cls.refusals, *each.refusals)):
                return False
        groups = {each.what for each in self._listed(bits) if each.code == "quota"}
        chosen = self._within(groups, together=together)
        if not chosen:
            return False
        relaxed = Relaxed(kept)
        with unregistered(self._solver), Trial(self._solver.capacity) as trial:
            if together and any((name, "domain") in kept for name in self._gatherers):
                made = tuple(relaxed.of(each, self._parts_of(each)) for each in chosen)
                whole = unit._replace(candidates=made, gang_of={each.name: unit.gang_of[each.name] for each in made})
                self.placed += len(made)
                return len(self._solver.solve([whole], trial, PLAN).placements) >= self._needed
            left = dict(needed)
            for candidate in chosen:
                self.placed += 1
                found = self._solver.place(relaxed.of(candidate, self._parts_of(candidate)), trial, PLAN)
                if not isinstance(found, Placement):
                    continue
                if not together:
                    return True
                gang = unit.gang_of[candidate.name]
                left[gang] = left.get(gang, 0) - 1
                if all(count <= 0 for count in left.values()):
                    return True
            return False

    def _within(self, groups: set[str], *, together: bool) -> list[Candidate]:
        """The members that these quota groups let in one after the other; none where too few are."""
        chosen: list[Candidate] = []
        count: dict[str, int] = {}
        for each in self._unit.candidates:
            like = [other for other in chosen if other.quota == each.quota]
            if groups and any(over.group.name in groups for over in self._over_with(each, like)):
                continue
            chosen.append(each)
            gang = self._unit.gang_of[each.name]
            count[gang] = count.get(gang, 0) + 1
        enough = all(count.get(gang, 0) >= needed for gang, needed in self._unit.needed.items())
        return chosen if enough or not together else []

    def _over_with(self, candidate: Candidate, like: Sequence[Candidate]) -> list[Over]:
        if candidate.quota is None:
            return []
        amounts = dict(candidate.charged)
        for other in like:
            for name, amount in other.charged.items():
                amounts[name] = amounts.get(name, 0) + amount
        quotas = self._solver.capacity.quotas
        return quotas.exceeded(candidate.quota, amounts, non_preemptible=candidate.non_preemptible)

    def _exceeded(self) -> list[Over]:
        """What all members together would exceed."""
        found: list[Over] = []
        for each in self._unit.candidates:
            like = [other for other in self._unit.candidates if other is not each and other.quota == each.quota]
            found += self._over_with(each, like)
            if found or each.quota is None:
                break
        return found or (exceeded(self._unit.candidates[0], self._solver) if self._unit.candidates else [])

    def _words_of(self, part: Part) -> str:
        nodes = self._solver.nodes
        said = words_of(part, np.flatnonzero(nodes.alive[: len(nodes)]))
        return said or f"not enough {part.what or part.code} for all that must start together"

    def _parts_of(self, candidate: Candidate) -> tuple[Part, ...]:
        key = id(candidate.cls) if not candidate.asked else id(candidate)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = parts_of(candidate, self._solver.nodes)
        return found


@contextmanager
def unregistered(solver: Solver) -> Iterator[None]:
    """What is kept for each node by classes that are made for a try is not counted: it ends with the try."""
    costs, picker = solver.costs.on_rows, solver.picker.on_rows
    solver.costs.on_rows = solver.picker.on_rows = lambda cls: None
    try:
        yield
    finally:
        solver.costs.on_rows, solver.picker.on_rows = costs, picker
