"""What a gatherer is, and what it may ask of the solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from berth.contracts.base import Reason
from berth.contracts.ledger import GangDomain, GangRef
from berth.placement_solver.core.seams import Mask, RowArray

if TYPE_CHECKING:  # the registry lists gatherers, and what waits is compiled by it
    from berth.placement_solver.core.plan import Candidate, Placement, Unit

Ints = npt.NDArray[np.int64]


class Job(NamedTuple):
    """Members that are gathered together, in the order of their ranks. `gangs`: the gang of each; `needed`: how many
    of each gang have to be placed for it to begin."""

    members: tuple[Candidate, ...]
    gangs: tuple[str, ...]
    needed: Mapping[str, int]

    @property
    def at_least(self) -> int:
        """Without so many the job does not begin."""
        return sum(self.needed.values())

    def first(self, count: int) -> list[Candidate]:
        """So many members: of each gang those that it needs, then who comes first."""
        missing = dict(self.needed)
        chosen = set()
        for place, gang in enumerate(self.gangs):
            if missing.get(gang, 0) > 0:
                missing[gang] -= 1
                chosen.add(place)
        for place in range(len(self.members)):
            if len(chosen) >= count:
                break
            chosen.add(place)
        return [self.members[place] for place in sorted(chosen)]


class Attempt(Protocol):
    """Placing on the live capacity; what is placed can be taken back."""

    def slots(self, members: tuple[Candidate, ...], rows: RowArray) -> Ints:
        """How many of the members each row takes at most, one after the other in their order."""

    def are_alike(self, members: tuple[Candidate, ...]) -> bool:
        """Whether a number of slots says enough: no member asks for something else of nodes than the others, or may
        draw on a reservation."""

    def place_on(self, candidate: Candidate, row: int) -> Placement | None:
        """Place it on this row, if that takes it."""

    def place_within(self, candidate: Candidate, rows: Mask) -> Placement | None:
        """Place it on the best of these rows, if one takes it."""

    def take_back(self) -> None:
        """Take back all that was placed by this attempt."""


class Gathered(NamedTuple):
    """Who is placed, and the one domain in which all have to stay."""

    placements: tuple[Placement, ...]
    domain: GangDomain | None = None


class Choice(NamedTuple):
    """Rows within which all members of a job may lie."""

    rows: RowArray


class Gatherer(Protocol):
    """One way in which members of gangs ask to lie together."""

    name: str

    def jobs(self, unit: Unit) -> list[Job]:
        """The members of a unit that ask for it, by what they ask for."""

    def alone(self, placement: Placement) -> GangRef | None:
        """What a member is decided with that is placed alone, because its gang has begun; None: it does not ask."""

    def gather(self, job: Job, attempt: Attempt) -> Gathered | Reason:
        """Place as many members as can be, as they ask for; or why too few can be."""

    def considered(self, job: Job, attempt: Attempt) -> list[str]:
        """What each place that the members may go to takes of them, in words."""

    def choices(self, job: Job, slots: Ints) -> list[list[Choice]]:
        """Where all members would lie as they ask for if each row took so many: those that lie closer first, and of
        each kind the better first. `slots` are by row."""

    def shared_out(self, job: Job, choice: Choice, slots: Ints) -> Ints | None:
        """How many members each row has to get there; None: that is free, as long as all have a place."""
