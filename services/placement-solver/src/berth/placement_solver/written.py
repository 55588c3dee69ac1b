"""What is written of a plan: the decisions of its placements on the view that they were made on."""

from __future__ import annotations

from collections.abc import Sequence

from berth.contracts.ledger import Decision
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.decide import Basis, decisions_of, nominating
from berth.placement_solver.core.displacers.seam import Proposal
from berth.placement_solver.core.plan import Placement


def decisions_on(
    cluster: ClusterView, placements: Sequence[Placement], plan: str, proposal: Proposal | None = None
) -> tuple[list[Decision], dict[str, int]]:
    """The decisions, those of a proposal with victims as nominations; and the revision used on each account."""
    complete = cluster.book.complete
    basis = Basis(complete["pods"].version, complete["reservations"].version, cluster.now_ms, cluster.prices.version)
    traces = {
        waiting.object.uid: waiting.trace
        for placement in placements
        if (waiting := cluster.queue.waiting.get(placement.candidate.name)) is not None
    }
    decisions, revisions = decisions_of(placements, plan, basis, cluster.nodes, cluster.quotas, traces)
    if proposal is not None and proposal.victims:
        gangs = {each.uid: gang.id for each in proposal.victims if (gang := cluster.gangs.strict_gang_of(each))}
        taken = {account: at for key in proposal.groups for account, at in cluster.quotas.accounts(key).items()}
        revisions.update(taken)
        decisions = nominating(decisions, proposal, cluster.budgets.values(), gangs, taken)
    return decisions, revisions
