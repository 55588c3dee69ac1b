"""One round of the solver: take a batch, solve, verify, commit, publish.

A round touches the world in three places only: the ledger (commit), commands (a pod's refusal), events. Everything
else is the view and the core. A contended batch goes to the optimiser, and a later round decides it.
"""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import Mapping, Sequence
from contextlib import suppress

from berth.bus.port import Clock, LedgerPort, PublisherPort
from berth.contracts.base import Reason
from berth.contracts.event import BatchBound
from berth.contracts.state import Reservation
from berth.placement_solver import metrics
from berth.placement_solver.back_off import BEHIND_PAUSE_S, BackOff
from berth.placement_solver.bounding import Bounding
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer, Outcome
from berth.placement_solver.consulting import Consulting
from berth.placement_solver.core.displacers.advice import Advice
from berth.placement_solver.core.displacers.seam import Nobody, Proposal, Refused
from berth.placement_solver.core.mishaps import CODE
from berth.placement_solver.core.plan import Placement, Refusal, Solution, Unit
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.twins import NO_TWIN
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.explaining import Explaining
from berth.placement_solver.growing import Growing
from berth.placement_solver.mishaps import told
from berth.placement_solver.optimiser import Answer, JointSolver
from berth.placement_solver.origins import BATCH, Made, Origins
from berth.placement_solver.origins.answers import answer_of
from berth.placement_solver.preempting import PROPOSALS_MAX, Free, Preempting, refused_together
from berth.placement_solver.readiness import FOLLOW_TIMEOUT_S, Readiness
from berth.placement_solver.revoking import Revoking
from berth.placement_solver.thinking import Contended
from berth.placement_solver.tidying import Tidying
from berth.placement_solver.verified import VerifiedSolver
from berth.placement_solver.written import decisions_on
from berth.telemetry import get_logger
from berth.transaction.batch import MESSAGES_MAX
from berth.transaction.claims import Name

log = get_logger(__name__)

WAKE_EVERY_S = 0.1
"""Waking looks at everything that waits, so a stream of departures is gathered."""
UNSEEN_PAUSE_S = 0.5
NAMED_MAX = 8
QUOTA_LAG_S = 1.0
"""How long a new pod's own demand may take to come back from quota-manager as a runtime."""


class Rounds:
    """The rounds of one solver process."""

    def __init__(
        self,
        cluster: ClusterView,
        verifier: Verifier,
        ledger: LedgerPort,
        events: PublisherPort,
        commands: PublisherPort,
        clock: Clock,
        random: randomness.Random,
        *,
        batch_pods_max: int,
        report_after_s: float,
        batch_messages_max: int = MESSAGES_MAX,
        optimiser: JointSolver | None = None,
        optimiser_budget_s: float = 0.0,
        bounds: bool = False,
        preempts: bool = False,
        origins: Origins | None = None,
    ) -> None:
        """`origins` says what plans are made from; None: that is not said. `bounds`: the optimiser is asked how near to
        the best batches are."""
        self.cluster = cluster
        self.changed = asyncio.Event()
        self.readiness = Readiness(cluster, clock)
        self.back_off = BackOff(random, batch_pods_max)
        self._verified = VerifiedSolver(cluster, verifier)
        self._clock = clock
        self._random = random
        self._batch_max = batch_pods_max
        self._consulting = Consulting(cluster, self._verified, optimiser, optimiser_budget_s, self.changed.set)
        self._preempting = Preempting(cluster, verifier, self._verified, random, only_unconditional=not preempts)
        self._committer = Committer(
            ledger, cluster.book.ledger, clock, cluster.me, messages_max=batch_messages_max, origins=origins
        )
        self._event_publisher = EventPublisher(cluster, events, commands, report_after_s=report_after_s)
        self.bounding = Bounding(
            cluster.solver,
            optimiser if bounds else None,
            self._event_publisher,
            clock,
            lambda: self._consulting.is_busy,
        )
        by_rules = Preempting(cluster, verifier, self._verified, randomness.Random(0))
        self.explaining = Explaining(
            cluster,
            self._event_publisher,
            clock,
            # What leaves where preemption is switched on, the rounds see to.
            (lambda unit: None) if preempts else by_rules.who_would_leave,
        )
        cluster.solver.tells = False  # words are made after the round
        self._tidying = Tidying(cluster, self._committer, clock)
        self._revoking = Revoking(
            cluster,
            verifier,
            self._committer,
            self.readiness,
            self._event_publisher,
            clock,
            random,
            revokes=preempts,
        )
        self._growing = Growing(
            cluster, verifier, self._committer, self.readiness, self._event_publisher, clock, random
        )
        self._woken_at = float("-inf")

    # --- planning ----------------------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """A round would find something to plan."""
        return self._consulting.has_answer or self.cluster.queue.has_ready(self.cluster.now)

    def tell_time(self) -> None:
        """Tell the view the time."""
        self.cluster.now, self.cluster.now_ms = self._clock.monotonic(), int(self._clock.now() * 1000)

    def tick(self) -> None:
        """Tell the view the time, and wake whom what has happened may help."""
        cluster = self.cluster
        cluster.payers.settle(cluster.book)
        cluster.moment += 1
        self.tell_time()
        if cluster.now - self._woken_at < WAKE_EVERY_S:
            return
        if cluster.has_news:
            self._woken_at = cluster.now
            cluster.wake()

    async def round(self) -> bool:
        """One batch; False when nothing was ready, or the views may not be planned on."""
        if not self.readiness.may_plan():
            return False
        cluster = self.cluster
        self.tick()
        if (contended := self._consulting.answer_to_batch()) is not None:
            await self._decide_answered(*contended)
            return True
        if (job := self._consulting.answer_to_job()) is not None:
            await self._nominate_answered(*job)
            return True
        self._consulting.take_prices()
        started = self._clock.monotonic()
        units, held_back = cluster.batch(self.back_off.batch)
        self._consulting.look_at_prices()
        failed = await self._refuse_failed()
        for waiting, reason in held_back:
            cluster.queue.hold(waiting, (reason,), cluster.now)
        for waiting, reason in held_back:
            if waiting.held and not waiting.ready:
                await self._event_publisher.refused(waiting, (reason,), patient=True)
        if held_back or failed:
            units = [cluster.renewed(unit) for unit in units if self._is_current(unit)]
            if not self.readiness.may_plan():
                await self._try_again(units, Outcome("behind", reason="the views have to be read again"))
                return True
        units = [unit for unit in units if not self._rests_behind(unit)]
        if not units:
            return bool(held_back) or failed
        plan, trial = self._new_plan()
        solution = self._verified.solve(units, trial, plan)
        if self._consulting.asks(units, solution, trial):
            return True
        await self._conclude(units, solution, trial, plan, started)
        return True

    async def _refuse_failed(self) -> bool:
        """Refuse those at whom a plugin raised when the batch was taken; whether there were any."""
        found, queue = self.cluster.failed(), self.cluster.queue
        for members, error in found:
            mishap = told(error, units=["/".join(each.name) for each in members[:NAMED_MAX]])
            for waiting in members:
                if queue.waiting.get(waiting.name) is waiting and not waiting.ready:
                    metrics.REFUSED.labels(CODE).inc()
                    queue.refuse(waiting, (mishap.reason,), self.cluster.now)
                    await self._event_publisher.refused(waiting, (mishap.reason,))
        return bool(found)

    def _new_plan(self) -> tuple[str, Trial]:
        return f"{self._random.getrandbits(96):024x}", Trial(self.cluster.capacity)

    async def _conclude(
        self,
        units: Sequence[Unit],
        solution: Solution,
        trial: Trial,
        plan: str,
        started: float,
        wanted: Mapping[Name, str] | None = None,
    ) -> None:
        """Commit and publish; what is not committed is tried again. `wanted`: who has which node by the optimiser, if
        the plan goes by that."""
        metrics.SOLVE_SECONDS.observe(self._clock.monotonic() - started)
        bound = self.bounding.draft(units, solution, trial)
        if solution.placements:
            answer = answer_of(wanted) if wanted is not None else None
            made = Made(groups=_groups(units), answer=answer, late=self._late(units))
            outcome = await self._commit(plan, solution, trial, made)
            if outcome.status != "committed":
                await self._try_again(units, outcome)
                return
            self._look_again(solution.placements)
            known = bound if isinstance(bound, BatchBound) and not solution.refusals else None
            await self._announce(plan, solution, started, known)
        self.bounding.decided(plan, bound)
        proposals = 0
        alike: dict[bytes, Nobody] = {}
        for refused in refused_together(units, solution):
            twin = self._twin_of(refused)
            if not self._preempting.concerns(refused):
                self._refuse(refused)
            elif twin in alike:
                self._refuse_all(refused, alike[twin])
            elif proposals < PROPOSALS_MAX:
                proposals += 1
                nobody = await self._preempt(refused)
                if nobody is None:
                    alike.clear()  # what was committed may be another answer to all
                elif twin:
                    alike[twin] = nobody
            else:
                self._make_ready(refused)

    def _twin_of(self, refused: Refused) -> bytes:
        """The same for those who are alike; empty for who is not."""
        unit = refused.unit
        waiting = self.cluster.queue.waiting.get(unit.candidates[0].name) if len(unit.candidates) == 1 else None
        return self.cluster.twin_of(waiting) if waiting is not None and not unit.needed else NO_TWIN

    # --- preemption --------------------------------------------------------------------------------------------------

    async def _preempt(self, refused: Refused, advice: Advice | None = None, *, asks: bool = True) -> Nobody | None:
        """Make others leave for those that were refused, under a plan of its own; or refuse them, and say why nobody
        leaves. `asks`: the optimiser may be asked first whether less will do."""
        still = [self._refused(refusal) for refusal in refused.refusals]
        if any(waiting is None for waiting in still) or not self.readiness.may_plan():
            self._make_ready(refused)
            return None
        started = self._clock.monotonic()
        plan, trial = self._new_plan()
        found = self._preempting.propose(refused, plan, advice)
        if isinstance(found, Free):
            self._make_ready(refused)
            return None
        if isinstance(found, Nobody):
            self._refuse_all(refused, found)
            return found
        if asks and self._consulting.improves(refused, found):
            return None
        solution = Solution(found.placements, ())
        unit, drawn = refused.unit, self._preempting.drawn
        answer = answer_of(advice.nodes, advice.victims) if advice is not None else None
        made = Made("preemption", _groups((unit,)), drawn, answer, self._late((unit,)))
        outcome = await self._commit(plan, solution, trial, made, found)
        if outcome.status != "committed":
            await self._try_again([refused.unit], outcome)
            return None
        self._look_again(solution.placements)
        if found.victims:
            metrics.NOMINATED.inc(len(found.placements))  # `placement.nominated` says what they wait for
        else:
            await self._announce(plan, solution, started)
        return None

    def _refuse_all(self, refused: Refused, nobody: Nobody) -> None:
        """Refuse those for whom nobody leaves."""
        self._refuse(
            refused._replace(refusals=tuple(each._replace(preemption=nobody.message) for each in refused.refusals))
        )
        for refusal in refused.refusals if nobody.again else ():
            if (waiting := self._refused(refusal)) is not None:
                self.cluster.queue.try_again(waiting, self.cluster.now)

    def _make_ready(self, refused: Refused) -> None:
        """Those of them that still wait are tried again."""
        for refusal in refused.refusals:
            if (waiting := self._refused(refusal)) is not None:
                self.cluster.queue.make_ready(waiting)

    def _refused(self, refusal: Refusal) -> Waiting | None:
        """What was refused, unless it has changed since the batch was taken: then it is tried again as it is now."""
        waiting = self.cluster.queue.waiting.get(refusal.candidate.name)
        return None if waiting is None or waiting.ready else waiting

    # --- the optimiser -----------------------------------------------------------------------------------------------

    async def _nominate_answered(self, refused: Refused, advice: Advice | None) -> None:
        """Make others leave for the job that the optimiser was asked about, on what there is now."""
        if not self._is_current(refused.unit):
            return
        if self._preempting.concerns(refused):
            await self._preempt(refused, advice, asks=False)
        else:
            self._make_ready(refused)  # it was tried again meanwhile, and may be nominated

    async def _decide_answered(self, question: Contended, answer: Answer | None, kept: set[Name]) -> None:
        """Decide the batch that the optimiser was asked about, on what there is now."""
        started = self._clock.monotonic()
        plan, trial = self._new_plan()
        metrics.GAP.set(answer.gap if answer else -1.0)
        units = [self.cluster.renewed(unit) for unit in question.units if self._is_current(unit)]
        joint: Solution | None = None
        wanted: dict[Name, str] = {}
        if len(units) == len(question.units) and answer is not None and answer.counts is not None:
            wanted, joint = self._consulting.better(question, units, answer.counts, trial, plan)
        solution = self._verified.solve(units, trial, plan) if joint is None else joint
        if kept - {placement.candidate.name for placement in solution.placements}:
            self.cluster.capacity_came_back = True  # others were refused for its sake
        await self._conclude(units, solution, trial, plan, started, None if joint is None else wanted)

    async def revoke(self) -> None:
        """Have groups give back that have been over their runtime for too long; between two rounds."""
        await self._revoking.look()

    async def grow(self) -> None:
        """Let Reservations hold more that ask for it and are placed; between two rounds."""
        await self._growing.look()

    async def explain(self) -> bool:
        """Make words for some of those who were refused without; whether there are more."""
        if not self.readiness.may_plan():
            return False
        self.tell_time()
        return await self.explaining.look()

    async def stop(self) -> None:
        """Wait for no answer of the optimiser."""
        await self._consulting.stop()
        await self.bounding.stop()

    # --- what is ours, and may be decided ----------------------------------------------------------------------------

    def _is_current(self, unit: Unit) -> bool:
        """Nothing of the unit has changed since the batch was taken; else what still waits is tried in the next one."""
        cluster, queue = self.cluster, self.cluster.queue
        waiting = [queue.waiting.get(candidate.name) for candidate in unit.candidates]
        if (
            all(
                w is not None
                and w.object is c.object
                and (isinstance(c.object, Reservation) or cluster.payers.still(c.object, c.quota, c.charge))
                for w, c in zip(waiting, unit.candidates, strict=True)
            )
            and not cluster.awaited.longest_wait([w for w in waiting if w is not None], cluster.now)
            and (not unit.needed or cluster.gangs.still_needs(unit.id, unit.needed))
        ):
            return True
        for each in waiting:
            if each is not None:
                queue.make_ready(each)
        return False

    def _late(self, units: Sequence[Unit]) -> list[Name]:
        """Members of their gangs that came after they were taken, while the optimiser thought, for one."""
        return [name for unit in units for name in self.cluster.late_for(unit)]

    async def _commit(
        self,
        plan: str,
        solution: Solution,
        trial: Trial,
        made: Made = BATCH,
        proposal: Proposal | None = None,
    ) -> Outcome:
        """Commit the decisions of a solution; those of a proposal with victims as nominations."""
        cluster = self.cluster
        decisions, revisions = decisions_on(cluster, solution.placements, plan, proposal)
        nominates = proposal is not None and bool(proposal.victims)
        displaced = [each.name for each in proposal.displaced if each.decision is not None] if proposal else []
        if not self.readiness.may_plan():
            # The optimiser takes its time, in which an epoch may have begun that this view has not reached (R12).
            trial.undo()
            return Outcome("behind", reason="the views have to be read again")
        if self.readiness.is_behind(revisions):
            trial.undo()
            return Outcome("behind", reason="another solver has used a newer revision of an account")
        # What was tried stays charged while the batch is on its way; the follower's word replaces it.
        cluster.capacity.assume(trial.claims)
        started, ledger_starts = self._clock.monotonic(), cluster.ledger_starts
        outcome = await self._committer.commit(plan, decisions, revisions, displaced, made=made)
        metrics.COMMIT_SECONDS.observe(self._clock.monotonic() - started)
        metrics.PLANS.labels(outcome.status).inc()
        if cluster.ledger_starts == ledger_starts:  # else it is a sequence of what LEDGER has lost
            self.readiness.require(outcome.sequence)
        if outcome.status == "committed":
            if nominates:
                await self._event_publisher.nominated(decisions)
            else:
                self._event_publisher.traced(decisions, int(self._clock.now() * 1000))
            await self._follow_to(outcome.sequence)
        if cluster.capacity.forget_assumed() and outcome.status == "committed":
            # Who was refused for the sake of a pod that is gone, or of a plan that the view does not show.
            cluster.capacity_came_back = True
        return outcome

    def _rests_behind(self, unit: Unit) -> bool:
        """Whether the unit would be charged to an account that is ahead of our view: it waits, the others go on."""
        cluster = self.cluster
        quotas = {candidate.quota for candidate in unit.candidates if candidate.quota is not None}
        if not any(self.readiness.is_behind(cluster.quotas.accounts(quota)) for quota in quotas):
            return False
        for candidate in unit.candidates:
            if (waiting := cluster.queue.waiting.get(candidate.name)) is not None:
                cluster.queue.rest_until(waiting, self._clock.monotonic() + BEHIND_PAUSE_S)
        return True

    async def _follow_to(self, sequence: int) -> None:
        """Wait until the ledger's follower has read our own batch, so that the next plan stands on it."""
        ledger = self.cluster.book.ledger
        deadline = self._clock.monotonic() + FOLLOW_TIMEOUT_S
        while ledger.sequence < sequence and self._clock.monotonic() < deadline:
            self.changed.clear()
            if ledger.sequence >= sequence:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.changed.wait()

    def _look_again(self, placements: Sequence[Placement]) -> None:
        """A committed plan that our view does not show (it went into an epoch that is over, or the follower is stuck)
        leaves its pods waiting: they are tried again, and the server lets no second decision into one epoch."""
        queue = self.cluster.queue
        for placement in placements:
            waiting = queue.waiting.get(placement.candidate.name)
            if waiting is not None and not waiting.ready:
                queue.rest_until(waiting, self._clock.monotonic() + UNSEEN_PAUSE_S)

    async def _try_again(self, units: Sequence[Unit], outcome: Outcome) -> None:
        """A refused batch is solved again; smaller and later for a while, so that solvers find past each other. One
        that was never sent waits for its views a moment, and one that finds LEDGER full for longer."""
        pause_s = self.back_off.pause_s(outcome)
        queue = self.cluster.queue
        for unit in units:
            for candidate in unit.candidates:
                waiting = queue.waiting.get(candidate.name)
                if waiting is not None:
                    queue.make_ready(waiting)
        await self._clock.sleep(pause_s)

    # --- afterwards --------------------------------------------------------------------------------------------------

    async def _announce(self, plan: str, solution: Solution, started: float, bound: BatchBound | None = None) -> None:
        self.back_off.committed()
        metrics.PLACED.inc(len(solution.placements))
        took_ms = round((self._clock.monotonic() - started) * 1000, 3)
        await self._event_publisher.planned(plan, solution.placements, took_ms, bound)

    def _refuse(self, refused: Refused) -> None:
        """Let them rest; they are told after the round."""
        for refusal in refused.refusals:
            waiting = self._refused(refusal)
            if waiting is None:
                continue
            if self._may_lag(waiting, refusal.reasons):
                self.cluster.queue.hold(waiting, refusal.reasons, self.cluster.now)
                self.cluster.queue.rest_until(waiting, waiting.since + QUOTA_LAG_S)
                continue
            self.cluster.queue.refuse(waiting, refusal.reasons, self.cluster.now)
            self.explaining.put(waiting, refused.unit, refusal)

    def _may_lag(self, waiting: Waiting, reasons: Sequence[Reason]) -> bool:
        """A runtime follows demand: what quota alone keeps from a new pod may be given once its demand is counted."""
        is_new = waiting.tries == 0 and self.cluster.now - waiting.since < QUOTA_LAG_S
        return is_new and bool(reasons) and all(reason.code == "quota" for reason in reasons)

    def is_idle(self) -> bool:
        """Fewer wait for their turn than one batch takes."""
        return self.cluster.queue.ready_about() < self._batch_max

    async def tidy(self) -> None:
        """Tidy our part of the ledger, and repeat what is not shown, from a view that may be planned on; and tidy the
        view itself, whatever it shows."""
        self._tidying.forget_markers()
        if self.readiness.may_plan():
            await self._tidying.tidy()
            await self._event_publisher.repeat()


def _groups(units: Sequence[Unit]) -> dict[str, dict[str, int]]:
    """How many members of each gang have to be placed, by group."""
    return {unit.id: unit.needed for unit in units if unit.needed}
