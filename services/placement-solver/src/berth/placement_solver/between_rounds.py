"""Plans of a single decision that are made between two rounds: how they are named, refused and committed."""

from __future__ import annotations

import random as randomness
from collections.abc import Mapping, Sequence

from berth.contracts.ledger import Decision
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer, Outcome
from berth.placement_solver.origins import Made
from berth.placement_solver.readiness import Readiness
from berth.telemetry import get_logger

log = get_logger(__name__)


def new_plan(random: randomness.Random) -> str:
    """An id that no other plan has."""
    return f"{random.getrandbits(96):024x}"


def tell_rejected(what: str, plan: str, problems: Sequence[str]) -> None:
    """The verifier has found something in it: a mistake of the solver's."""
    metrics.REJECTED_PLANS.inc()
    log.error(
        f"the verifier rejected {what}: it is not committed; please report this", plan=plan, problems=problems[:8]
    )


async def commit_alone(
    cluster: ClusterView, committer: Committer, readiness: Readiness, decision: Decision, revisions: Mapping[str, int]
) -> Outcome:
    """Commit it; what is planned next is planned on a view that has read it, unless LEDGER began anew meanwhile."""
    starts = cluster.ledger_starts
    made = Made("growth" if decision.grows else "revocation")
    outcome = await committer.commit(decision.plan, [decision], revisions, made=made)
    metrics.PLANS.labels(outcome.status).inc()
    if cluster.ledger_starts == starts:
        readiness.require(outcome.sequence)
    return outcome
