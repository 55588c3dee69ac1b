"""How near to the best each batch was decided: bounds are worked out beside the rounds, by the optimiser's child.

A batch of which all were placed needs none. For the others a round writes down what there was when it began, which
takes a few milliseconds at most, and goes on; the answer changes nothing that is decided. Bounds give way to everything
else that the child is asked: none is asked for while it is busy, and between two of them it rests, so that they take no
more than a part of its time. Whatever was not asked, or not answered, is counted as unknown, with the reason.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from berth.bus.port import Clock
from berth.contracts.event import BatchBound
from berth.placement_solver import metrics
from berth.placement_solver.core.bounds.problem import Draft, bound_problem
from berth.placement_solver.core.bounds.verdict import (
    counted,
    in_words,
    refusal_of,
    tally_in_words,
    unknown,
    verdict,
)
from berth.placement_solver.core.plan import Solution, Unit
from berth.placement_solver.core.solve import Solver
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.mishaps import told
from berth.placement_solver.optimiser import JointSolver
from berth.telemetry import get_logger

log = get_logger(__name__)

REST: Final = 4.0
"""After a bound no other is asked for until so many times as long has passed as it took."""
REST_MIN_S: Final = 0.25
OFF: Final = "off"
"""There is nobody to ask."""
BUSY: Final = "busy"
RESTING: Final = "resting"


class Bounding:
    """The bounds of one solver. `is_busy` says whether the optimiser has something else to do."""

    def __init__(
        self,
        solver: Solver,
        optimiser: JointSolver | None,
        events: EventPublisher,
        clock: Clock,
        is_busy: Callable[[], bool],
    ) -> None:
        """`optimiser` None: there is nobody to ask."""
        self._solver = solver
        self._optimiser = optimiser
        self._events = events
        self._clock = clock
        self._is_busy = is_busy
        self._asked: asyncio.Task[None] | None = None
        self._rests_until = float("-inf")
        self.last: BatchBound | None = None
        """Of the batch that was judged last, or could not be; not of those that nobody was asked about meanwhile."""
        self.counts: Counter[str] = Counter()
        """Of batches, by status."""

    @property
    def words(self) -> str:
        """The batch that was judged last, for people."""
        return in_words(self.last) if self.last is not None else ""

    @property
    def tally(self) -> str:
        """How many batches were of each status, for people."""
        return tally_in_words(self.counts)

    @property
    def gap(self) -> float:
        """Of the batch that was judged last; -1 where it is unknown."""
        return self.last.gap if self.last is not None else -1.0

    def draft(self, units: Sequence[Unit], solution: Solution, trial: Trial) -> Draft | BatchBound:
        """The question about a batch whose plan the trial holds, or the answer where nobody has to be asked."""
        placed = len(solution.placements)
        pods = placed + len(solution.refusals)
        if not solution.refusals:
            return counted(pods, placed)
        why = self._why_not()
        if why:
            return unknown(pods, placed, why)
        try:
            draft = bound_problem(units, self._solver, trial.claims)
        except Exception as error:
            told(error, "bounds")
            return unknown(pods, placed, "error")
        if draft is None:
            return unknown(pods, placed, "too large")
        # Of those that are left no plan places any, by what themselves say.
        return counted(pods, placed) if sum(draft.problem.counts) == placed else draft

    def decided(self, plan: str, draft: Draft | BatchBound) -> None:
        """The batch was decided by this plan: ask, or tell what is known."""
        if isinstance(draft, BatchBound):
            self._tell(plan, draft)
        elif self._optimiser is not None:
            self._asked = asyncio.create_task(self._ask(plan, draft, self._optimiser), name="bound")

    async def stop(self) -> None:
        """Ask no more, and wait for no answer."""
        if self._asked is not None:
            self._asked.cancel()
            await asyncio.wait([self._asked])

    def _why_not(self) -> str:
        if self._optimiser is None:
            return OFF
        if self._is_busy() or (self._asked is not None and not self._asked.done()):
            return BUSY
        return RESTING if self._clock.monotonic() < self._rests_until else ""

    async def _ask(self, plan: str, draft: Draft, optimiser: JointSolver) -> None:
        began = self._clock.monotonic()
        pods, placed = sum(draft.pods), sum(draft.problem.placed)
        try:
            answer = await optimiser.solve(draft.problem)
            trouble = optimiser.trouble
        except Exception as error:
            told(error, "bounds")
            answer, trouble = None, "error"
        took_s = self._clock.monotonic() - began
        self._rests_until = began + took_s + max(REST * took_s, REST_MIN_S)
        took_ms = round(1e3 * took_s, 3)
        metrics.BOUND_SECONDS.observe(took_s)
        if answer is None or answer.bound is None:
            # An answer that says nothing: the program was not solved in its time.
            self._tell(plan, unknown(pods, placed, trouble or "late", took_ms))
            return
        refused = refusal_of(answer.bound, draft)
        if refused:
            log.warning("a bound that cannot be true is refused", name=refused, plan=plan)
            self._tell(plan, unknown(pods, placed, refused, took_ms))
            return
        self._tell(plan, verdict(answer.bound, draft, took_ms))

    def _tell(self, plan: str, bound: BatchBound) -> None:
        self.counts[bound.status] += 1
        metrics.BOUNDS.labels(bound.status, bound.problem).inc()
        if bound.problem not in (BUSY, RESTING):
            self.last = bound
            metrics.BOUND_GAP.set(bound.gap)
        if bound.placed < bound.pods and bound.problem != OFF:
            self._events.bounded(plan, bound)
