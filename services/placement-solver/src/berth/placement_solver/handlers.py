"""One round of the solver: take a batch, solve, verify, commit, tell.

A round touches the world in three places only: the ledger (commit), commands (a pod's refusal), events. Everything
else is the view and the core.
"""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import Mapping, Sequence
from contextlib import suppress

from berth.bus.port import Clock, LedgerPort, PublisherPort
from berth.contracts import buckets
from berth.contracts.base import Reason
from berth.contracts.state import Reservation
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer, Outcome
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.joint.contention import is_contended, worth
from berth.placement_solver.core.joint.expand import joint_solution
from berth.placement_solver.core.joint.problem import build_problem
from berth.placement_solver.core.plan import Placement, Refusal, Solution, Unit
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.solve import Trial
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.optimiser import JointSolver
from berth.placement_solver.tidying import Tidying
from berth.telemetry import get_logger
from berth.transaction.batch import MESSAGES_MAX

log = get_logger(__name__)

WAKE_EVERY_S = 0.1
"""Waking looks at everything that waits, so a stream of departures is gathered."""
CONFLICT_PAUSE_MAX_S = 0.2
FULL_PAUSE_MAX_S = 5.0
FOLLOW_TIMEOUT_S = 10.0
UNSEEN_PAUSE_S = 0.5
BEHIND_PAUSE_S = 0.05
MUST_BE_READ = frozenset({buckets.STATE, buckets.LEDGER, buckets.QUOTA, buckets.INVENTORY, buckets.RESERVATION})
QUOTA_LAG_S = 1.0
"""How long a new pod's own demand may take to come back from quota-manager as a runtime."""


class Handlers:
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
        tell_after_s: float,
        batch_messages_max: int = MESSAGES_MAX,
        optimiser: JointSolver | None = None,
        optimiser_budget_s: float = 0.0,
    ) -> None:
        self.cluster = cluster
        self.changed = asyncio.Event()
        self._verifier = verifier
        self._clock = clock
        self._random = random
        self._batch_max = batch_pods_max
        self._limit = batch_pods_max
        self._optimiser = optimiser
        self._optimiser_budget_s = optimiser_budget_s
        self._committer = Committer(ledger, cluster.book.ledger, clock, cluster.me, messages_max=batch_messages_max)
        self._event_publisher = EventPublisher(cluster, events, commands, tell_after_s=tell_after_s)
        self._tidying = Tidying(cluster, self._committer, clock)
        self._needs_sequence, self._needed_since = 0, 0.0
        self._ledger_starts = 0
        self._awaited: set[str] = set()
        self._woken_at = float("-inf")
        self._conflicts_in_row = 0
        self._full_in_row = 0

    # --- planning ----------------------------------------------------------------------------------------------------

    def may_plan(self) -> bool:
        """Rules R12 and R15, and views that have been read to their end.

        Who has not read Reservations since STATE began anew would give their room away, and who has not read QUOTA
        would charge nobody.
        """
        cluster = self.cluster
        book = cluster.book
        epoch = book.ledger.epoch
        pods, reservations = book.complete["pods"], book.complete["reservations"]
        if self._ledger_starts != cluster.ledger_starts:
            # Another stream counts from its own start.
            self._ledger_starts, self._needs_sequence = cluster.ledger_starts, 0
        if self._clock.monotonic() - self._needed_since > FOLLOW_TIMEOUT_S:
            # What was acknowledged may be lost before anybody has read it; R1 refuses who plans without it.
            self._needs_sequence = 0
        return (
            epoch.epoch > 0
            and not self._awaited
            and cluster.knows_quotas()
            and pods.is_known
            and pods.version >= epoch.pods_version
            and reservations.is_known
            and reservations.version >= epoch.reservations_version
            and book.ledger.sequence >= self._needs_sequence
            and not book.ledger.unreadable
        )

    def _require(self, sequence: int) -> None:
        """Plan again on a view that has read LEDGER so far."""
        if sequence > self._needs_sequence:
            self._needs_sequence, self._needed_since = sequence, self._clock.monotonic()

    def read_to_end(self, bucket: str) -> None:
        """A follower has reached the end of its bucket."""
        self._awaited.discard(bucket)

    def starts_over(self, bucket: str) -> None:
        """A follower reads its bucket from the start: nothing is planned before it has reached the end."""
        if bucket in MUST_BE_READ:
            self._awaited.add(bucket)

    def tell_time(self) -> None:
        """Tell the view the time."""
        self.cluster.now, self.cluster.now_ms = self._clock.monotonic(), int(self._clock.now() * 1000)

    def tick(self) -> None:
        """Tell the view the time, and wake what room or quota that came back may help."""
        cluster = self.cluster
        cluster.payers.settle(cluster.book)
        self.tell_time()
        if cluster.now - self._woken_at < WAKE_EVERY_S:
            return
        if cluster.capacity_came_back:
            self._woken_at = cluster.now
            cluster.capacity_came_back = cluster.quota_changed = False
            cluster.queue.wake(cluster.now)
        elif cluster.quota_changed:
            self._woken_at = cluster.now
            cluster.quota_changed = False
            cluster.queue.wake(cluster.now, _waits_for_quota)

    async def round(self) -> bool:
        """One batch; False when nothing was ready, or the views may not be planned on."""
        if not self.may_plan():
            return False
        cluster = self.cluster
        self.tick()
        started = self._clock.monotonic()
        units, held_back = cluster.batch(self._limit)
        for waiting, reason in held_back:
            cluster.queue.hold(waiting, (reason,), cluster.now)
        for waiting, reason in held_back:
            if waiting.held and not waiting.ready:
                await self._event_publisher.refused(waiting, (reason,), patient=True)
        if held_back:
            units = [unit for unit in units if self._is_current(unit)]
            if not self.may_plan():
                await self._try_again(units, Outcome("behind", reason="the views have to be read again"))
                return True
        units = [unit for unit in units if not self._rests_behind(unit)]
        if not units:
            return bool(held_back)
        plan = f"{self._random.getrandbits(96):024x}"
        trial = Trial(cluster.capacity)
        solution = self._verified(units, trial, plan)
        if self._optimiser is not None and is_contended(units, solution):
            solution = await self._improved(units, solution, trial, plan)
            if not self.may_plan():
                trial.undo()
                await self._try_again(units, Outcome("behind", reason="the views have to be read again"))
                return True
        metrics.SOLVE_SECONDS.observe(self._clock.monotonic() - started)
        if solution.placements:
            outcome = await self._commit(plan, solution, trial)
            if outcome.status == "committed":
                self._look_again(solution.placements)
                await self._announce(plan, solution, started)
            else:
                await self._try_again(units, outcome)
                return True
        for refusal in solution.refusals:
            await self._refuse(refusal)
        return True

    def _verified(self, units: Sequence[Unit], trial: Trial, plan: str) -> Solution:
        """Solve; what the independent verifier rejects is taken back and reported, never committed.

        A unit of which it has rejected a plan before is tried behind the others, by itself.
        """
        aside = {unit.id for unit in units if self._was_rejected(unit)}
        together = [unit for unit in units if unit.id not in aside] if aside else units
        solution = self.cluster.solver.solve(together, trial, plan)
        problems = self._verifier.check([placement.claim for placement in solution.placements])
        if problems:
            metrics.REJECTED_PLANS.inc()
            log.error(
                "the verifier rejected a plan: it is not committed; please report this",
                plan=plan,
                problems=problems[:8],
            )
            trial.undo()
            solution = self._one_by_one(together, trial, plan, Solution((), ()))
        if aside:
            solution = self._one_by_one([unit for unit in units if unit.id in aside], trial, plan, solution)
        return solution

    def _was_rejected(self, unit: Unit) -> bool:
        waiting = self.cluster.queue.waiting
        return any((each := waiting.get(c.name)) is not None and each.rejected for c in unit.candidates)

    def _one_by_one(self, units: Sequence[Unit], trial: Trial, plan: str, others: Solution) -> Solution:
        """Solve units beside what others got, so that one which the verifier rejects costs only itself."""
        placements = list(others.placements)
        refusals = list(others.refusals)
        for unit in units:
            before = len(trial.claims)
            found = self.cluster.solver.solve([unit], trial, plan)
            problems = self._verifier.check([placement.claim for placement in (*placements, *found.placements)])
            if problems:
                trial.undo(before)
                reason = Reason(code="verifier", message=f"internal: plan rejected by the verifier: {problems[0]}")
                refusals += [Refusal(candidate, (reason,)) for candidate in unit.candidates]
                for candidate in unit.candidates:
                    if (waiting := self.cluster.queue.waiting.get(candidate.name)) is not None:
                        waiting.rejected = True
            else:
                placements += found.placements
                refusals += found.refusals
        return Solution(tuple(placements), tuple(refusals))

    async def _improved(self, units: Sequence[Unit], solution: Solution, trial: Trial, plan: str) -> Solution:
        """Let the optimiser try a contended batch; its plan counts only if it is worth more and the verifier agrees."""
        cluster = self.cluster
        solver = cluster.solver
        trial.undo()
        written = build_problem(units, cluster.nodes, solver.costs, cluster.quotas, self._optimiser_budget_s)
        if written is None or self._optimiser is None:
            return self._verified(units, trial, plan)
        # Followers read on while the child works: the room may have changed, and the expansion sees it as it is then.
        answer = await self._optimiser.solve(written[0])
        self.tell_time()
        if not self.may_plan():
            return Solution((), ())
        metrics.GAP.set(answer.gap if answer else -1.0)
        current = [unit for unit in units if self._is_current(unit)]
        if len(current) < len(units):
            return self._verified(current, trial, plan)
        if answer is None or answer.counts is None:
            return self._verified(units, trial, plan)
        joint = joint_solution(answer.counts, written[1], units, solution, solver, trial, plan)
        is_better = worth(joint.placements) > worth(solution.placements)
        problems = self._verifier.check([placement.claim for placement in joint.placements]) if is_better else []
        if problems:
            metrics.REJECTED_JOINT_PLANS.inc()
            log.warning("the verifier rejected a plan of the optimiser", plan=plan, problems=problems[:8])
        if problems or not is_better:
            trial.undo()
            return self._verified(units, trial, plan)
        metrics.IMPROVED.inc()
        return joint

    def _is_current(self, unit: Unit) -> bool:
        """Nothing of the unit has changed since the batch was taken; else what still waits is tried in the next one."""
        cluster, queue = self.cluster, self.cluster.queue
        waiting = [queue.waiting.get(candidate.name) for candidate in unit.candidates]
        if (
            all(
                w is not None
                and w.object is c.object
                and (isinstance(c.object, Reservation) or cluster.payers.of(c.object) == c.quota)
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

    async def _commit(self, plan: str, solution: Solution, trial: Trial) -> Outcome:
        cluster = self.cluster
        book = cluster.book
        basis = Basis(book.complete["pods"].version, book.complete["reservations"].version, cluster.now_ms)
        traces = {
            waiting.object.uid: waiting.trace
            for placement in solution.placements
            if (waiting := cluster.queue.waiting.get(placement.candidate.name)) is not None
        }
        decisions, revisions = decisions_of(solution.placements, plan, basis, cluster.nodes, cluster.quotas, traces)
        if not self.may_plan():
            # The optimiser takes its time, in which an epoch may have begun that this view has not reached (R12).
            trial.undo()
            return Outcome("behind", reason="the views have to be read again")
        if self._is_behind(revisions):
            trial.undo()
            return Outcome("behind", reason="another solver has used a newer revision of an account")
        # What was tried stays charged while the batch is on its way; the follower's word replaces it.
        cluster.capacity.assume(trial.claims)
        started, ledger_starts = self._clock.monotonic(), cluster.ledger_starts
        outcome = await self._committer.commit(plan, decisions, revisions)
        metrics.COMMIT_SECONDS.observe(self._clock.monotonic() - started)
        metrics.PLANS.labels(outcome.status).inc()
        if cluster.ledger_starts == ledger_starts:  # else it is a sequence of what LEDGER has lost
            self._require(outcome.sequence)
        if outcome.status == "committed":
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
        if not any(self._is_behind(cluster.quotas.accounts(quota)) for quota in quotas):
            return False
        for candidate in unit.candidates:
            if (waiting := cluster.queue.waiting.get(candidate.name)) is not None:
                cluster.queue.rest_until(waiting, self._clock.monotonic() + BEHIND_PAUSE_S)
        return True

    def _is_behind(self, revisions: Mapping[str, int]) -> bool:
        """Rule R14: an account that names a newer revision than ours is planned on only after catching up."""
        stamps = self.cluster.book.ledger.stamps
        return any(
            (stamp := stamps.get(account)) is not None and stamp.revision > revision
            for account, revision in revisions.items()
            if account.startswith("quota.")
        )

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
        pause_s = BEHIND_PAUSE_S
        if outcome.status == "full":
            pause_s = self._full_pause()
        elif outcome.status != "behind":
            metrics.CONFLICTS.inc()
            self._conflicts_in_row += 1
            self._limit = max(8, self._limit // 2)
            most_s = min(CONFLICT_PAUSE_MAX_S, 0.002 * 2 ** min(self._conflicts_in_row, 8))
            pause_s = self._random.uniform(0.0, most_s)
        log.debug("a plan was not committed", status=outcome.status, reason=outcome.reason)
        queue = self.cluster.queue
        for unit in units:
            for candidate in unit.candidates:
                waiting = queue.waiting.get(candidate.name)
                if waiting is not None:
                    queue.make_ready(waiting)
        await self._clock.sleep(pause_s)

    def _full_pause(self) -> float:
        """LEDGER has no room: how long to rest, longer each time. Deletions go through meanwhile, and make room."""
        if not self._full_in_row:
            log.error("the ledger is full: nothing is placed before something is deleted from it")
        metrics.LEDGER_FULL.set(1)
        self._full_in_row += 1
        return self._random.uniform(0.5, 1.0) * min(FULL_PAUSE_MAX_S, 0.25 * 2.0 ** min(self._full_in_row, 8))

    def _has_room(self) -> None:
        if self._full_in_row:
            log.info("the ledger takes plans again")
            metrics.LEDGER_FULL.set(0)
            self._full_in_row = 0

    # --- afterwards --------------------------------------------------------------------------------------------------

    async def _announce(self, plan: str, solution: Solution, started: float) -> None:
        self._has_room()
        self._limit = min(self._batch_max, self._limit * 2)
        self._conflicts_in_row = 0
        metrics.PLACED.inc(len(solution.placements))
        took_ms = round((self._clock.monotonic() - started) * 1000, 3)
        await self._event_publisher.planned(plan, solution.placements, took_ms)

    async def _refuse(self, refusal: Refusal) -> None:
        waiting = self.cluster.queue.waiting.get(refusal.candidate.name)
        if waiting is None or waiting.ready:
            return  # what has changed since the batch was taken is tried again as it is now
        metrics.REFUSED.labels(refusal.reasons[0].code.split(" ")[0] if refusal.reasons else "none").inc()
        if self._may_lag(waiting, refusal.reasons):
            self.cluster.queue.hold(waiting, refusal.reasons, self.cluster.now)
            self.cluster.queue.rest_until(waiting, waiting.since + QUOTA_LAG_S)
            return
        self.cluster.queue.refuse(waiting, refusal.reasons, self.cluster.now)
        await self._event_publisher.refused(waiting, refusal.reasons, gang=refusal.gang)

    def _may_lag(self, waiting: Waiting, reasons: Sequence[Reason]) -> bool:
        """A runtime follows demand: what quota alone keeps from a new pod may be given once its demand is counted."""
        is_new = waiting.tries == 0 and self.cluster.now - waiting.since < QUOTA_LAG_S
        return is_new and bool(reasons) and all(reason.code == "quota" for reason in reasons)

    @property
    def is_full(self) -> bool:
        """LEDGER had no room for the last plan."""
        return self._full_in_row > 0

    def is_idle(self) -> bool:
        """Fewer wait for their turn than one batch takes."""
        return self.cluster.queue.ready_about() < self._batch_max

    async def tidy(self) -> None:
        """Tidy our part of the ledger, from a view that may be planned on; and the view itself, whatever it shows."""
        self._tidying.forget_markers()
        if self.may_plan():
            await self._tidying.tidy()


def _waits_for_quota(waiting: Waiting) -> bool:
    return any(reason.code == "quota" for reason in waiting.reasons)
