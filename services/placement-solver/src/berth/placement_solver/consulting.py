"""What rounds ask the optimiser while others go on, one question at a time, and whether its plan is the better one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.displacers.advice import Advice
from berth.placement_solver.core.displacers.seam import Proposal, Refused
from berth.placement_solver.core.joint.contention import is_contended, worth
from berth.placement_solver.core.joint.expand import joint_solution, wanted_of
from berth.placement_solver.core.plan import Solution, Unit
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.improving import Improving
from berth.placement_solver.mishaps import told
from berth.placement_solver.optimiser import Answer, JointSolver
from berth.placement_solver.pricing import Pricing
from berth.placement_solver.thinking import Contended, Thinking
from berth.placement_solver.verified import VerifiedSolver
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)


class Consulting:
    """About contended batches, about who leaves for a job, and about prices. Without an optimiser nothing is asked."""

    def __init__(
        self,
        cluster: ClusterView,
        verified: VerifiedSolver,
        optimiser: JointSolver | None,
        budget_s: float,
        on_answer: Callable[[], None],
    ) -> None:
        """`on_answer` is called when a question is over, with or without an answer."""
        self._cluster = cluster
        self._verified = verified
        self.thinking = Thinking(cluster, optimiser, budget_s, on_answer) if optimiser else None
        self.improving = Improving(optimiser, budget_s, on_answer) if optimiser else None
        self.pricing = Pricing(cluster.prices, optimiser, on_answer, lambda: cluster.now_ms) if optimiser else None

    @property
    def is_busy(self) -> bool:
        """A question is with it."""
        others = (self.thinking, self.improving, self.pricing)
        return any(each is not None and each.question.is_busy for each in others)

    @property
    def has_answer(self) -> bool:
        """Somebody waits for what it has said."""
        others = (self.thinking, self.improving)
        return any(each is not None and each.question.is_answered for each in others)

    def answer_to_batch(self) -> tuple[Contended, Answer | None, set[Name]] | None:
        """What `Thinking.take` says, if its question is over."""
        thinking = self.thinking
        return thinking.take() if thinking is not None and thinking.question.is_answered else None

    def answer_to_job(self) -> tuple[Refused, Advice | None] | None:
        """What `Improving.take` says, if its question is over."""
        improving = self.improving
        return improving.take() if improving is not None and improving.question.is_answered else None

    def take_prices(self) -> None:
        """Have an answer about prices hold, if there is one."""
        if self.pricing is not None and self.pricing.question.is_answered:
            self.pricing.take()

    def look_at_prices(self) -> None:
        """Ask for prices, if another mix arrives than they were made for."""
        if self.pricing is not None and not self.is_busy:
            self.pricing.look()

    def asks(self, units: Sequence[Unit], solution: Solution, trial: Trial) -> bool:
        """Whether the optimiser is asked about a batch: it is decided in a later round then."""
        if self.thinking is None or self.is_busy:
            return False
        try:
            contended = is_contended(units, solution)
        except Exception as error:
            told(error, "optimiser")
            contended = False
        return contended and self.thinking.start(units, solution, trial)

    def improves(self, refused: Refused, found: Proposal) -> bool:
        """Whether the optimiser is asked for a cheaper plan of who leaves: a later round nominates then."""
        if self.improving is None or self.is_busy or found.question is None:
            return False
        self.improving.start(refused, found.question)
        return True

    def better(
        self, question: Contended, units: Sequence[Unit], counts: Sequence[Sequence[int]], trial: Trial, plan: str
    ) -> tuple[dict[Name, str], Solution | None]:
        """To whom the optimiser gives which node; and its plan, if it is worth more than what would be placed now
        without it, and the verifier agrees."""
        solver = self._cluster.solver
        wanted: dict[Name, str] = {}
        plain = self._verified.tried(units, trial, plan)
        at_hand = worth(plain.placements) if isinstance(plain, Solution) else worth(())
        trial.undo()
        try:
            wanted = wanted_of(counts, question.layout)
            joint = joint_solution(wanted, units, question.greedy, solver, trial, plan)
        except Exception as error:
            told(error, "optimiser", plan=plan)
            trial.undo()
            return wanted, None
        is_better = worth(joint.placements) > at_hand
        problems = self._verified.problems(joint.placements) if is_better else []
        if problems:
            metrics.REJECTED_JOINT_PLANS.inc()
            log.warning("the verifier rejected a plan of the optimiser", plan=plan, problems=problems[:8])
        if problems or not is_better:
            trial.undo()
            return wanted, None
        metrics.IMPROVED.inc()
        return wanted, joint

    async def stop(self) -> None:
        """Wait for no answer."""
        for each in (self.thinking, self.improving, self.pricing):
            if each is not None:
                await each.question.stop()
