"""The seam by which the solver makes others leave: what a displacer is, what it is asked, and what it answers.

A displacer proposes, for who was refused, places and who has to leave for them. It decides nothing: `preempting` has
the verifier agree, and a round commits what it agrees to as nominations (docs/evictions.md).
`core.displacers.registry` lists what there is; nothing else knows one of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from berth.contracts.state import Pod
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.displacers.advice import Advice, JobQuestion
from berth.placement_solver.core.displacers.charged_pods import ChargedPods
from berth.placement_solver.core.displacers.leavers import Leavers
from berth.placement_solver.core.displacers.operating_pods import Placeholders
from berth.placement_solver.core.groups import Gangs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.nominated import Nominated
from berth.placement_solver.core.plan import Placement, Refusal, Unit
from berth.placement_solver.core.solve import Solver
from berth.rules.preemption import BY_SCHEDULER, Budget
from berth.transaction.book import Book
from berth.transaction.nominations import Nomination

ALREADY_SAID: Final = ""
"""Of an answer that has nothing to add to the refusal."""


class Ground(NamedTuple):
    """What displacers look at: the live view of a solver.

    `budgets` gives the disruption budgets there are; `moment` a number that is another one as soon as anything else has
    been seen.
    """

    nodes: Nodes
    capacity: Capacity
    book: Book
    solver: Solver
    gangs: Gangs
    leavers: Leavers
    charged: ChargedPods
    budgets: Callable[[], Iterable[Budget]]
    placeholders: Placeholders
    moment: Callable[[], int]

    @property
    def nominated(self) -> Nominated:
        """The nominations that hold capacity."""
        return self.capacity.nominated


class Refused(NamedTuple):
    """Who was refused together, and why each was: a pod, a Reservation, or all members of a gang group that wait."""

    unit: Unit
    refusals: tuple[Refusal, ...]


class Asking(NamedTuple):
    """What is asked beside who was refused.

    `offset`: from which node on they are tried. `refused`: the uids of those whom the API server did not let go for it
    of late. `now_s` is unix time: who should have left long before is not chosen again (E7). `advice` is the answer to
    the question of a proposal before.
    """

    plan: str
    offset: int = 0
    refused: frozenset[str] = frozenset()
    now_s: float = 0.0
    advice: Advice | None = None


class Proposal(NamedTuple):
    """What each of them would take, and the way to it: `victims` leave, and `displaced` nominations give way.

    Without victims it may be decided at once. `reason` is that of the victims' condition DisruptionTarget. `groups` are
    the quota groups that victims leave, by tree and name: their accounts are charged as well, so that two plans do not
    both take what one of them has too much. `question`: there may be a cheaper one.
    """

    placements: tuple[Placement, ...]
    victims: tuple[Pod, ...] = ()
    displaced: tuple[Nomination, ...] = ()
    reason: str = BY_SCHEDULER
    groups: tuple[tuple[str, str], ...] = ()
    question: JobQuestion | None = None


class Nobody(NamedTuple):
    """Nobody is made to leave; `message` says why, as kube-scheduler words it, or nothing.

    `again`: somebody may have to soon, of which no event would tell.
    """

    message: str = ALREADY_SAID
    again: bool = False


class Displacer(Protocol):
    """One reason to make pods leave, in one file of `core/displacers`."""

    name: str

    def concerns(self, refused: Refused) -> bool:
        """Whether it may help these that others leave, for all that the refusals say."""

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """Who would leave, and for which places. Everything it has charged meanwhile is taken back."""

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether they could have this node once all leave whom it may make leave: else what Kubernetes remembers of a
        nomination to it holds nothing (E3)."""
