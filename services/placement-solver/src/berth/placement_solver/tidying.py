"""Tidying of the ledger: settled decisions, stamps of what is gone, plans that nobody finishes; and of its view."""

from __future__ import annotations

from collections.abc import Iterable

from berth.bus.port import Clock
from berth.bus.topology import TOMBSTONE_TTL_S
from berth.contracts import subjects
from berth.contracts.ledger import PlanStatus
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer
from berth.placement_solver.core.shards import owner
from berth.telemetry import get_logger

log = get_logger(__name__)

ABANDONED_AFTER_S = 30.0
TIDY_MAX = 400
MARKERS_KEPT_S = 1.25 * TOMBSTONE_TTL_S
"""By then the server has dropped a deletion marker for certain, late as it may be."""


class Tidying:
    """What this solver's part of the ledger no longer needs."""

    def __init__(self, cluster: ClusterView, committer: Committer, clock: Clock) -> None:
        self.cluster = cluster
        self._committer = committer
        self._clock = clock
        self._open_since: dict[str, float] = {}

    def forget_markers(self) -> None:
        """Forget the deletions that the ledger itself has forgotten by now."""
        self.cluster.book.ledger.forget_markers(self._clock.monotonic(), MARKERS_KEPT_S)

    async def tidy(self) -> None:
        """Delete settled decisions of our part, and give up plans that nobody finishes."""
        cluster = self.cluster
        settled = [
            name
            for name, held in cluster.book.ledger.decisions.items()
            if name in cluster.loose and cluster.is_mine(held.decision.uid) and cluster.book.is_settled(held.decision)
        ]
        stamps = self._idle_stamps()
        if settled or stamps:
            await self._committer.delete(settled[:TIDY_MAX], stamps[:TIDY_MAX])
        for plan in self._abandoned():
            log.warning("giving up a plan that nobody finishes", plan=plan)
            await self._committer.abort(plan)

    def _idle_stamps(self) -> list[str]:
        """Accounts of our part whose node, reservation, namespace, budget, volume or claim is gone.

        Those of groups stay: their revision counts (R14).
        """
        cluster = self.cluster
        found = []
        for account in cluster.book.ledger.stamps:
            family, _, rest = account.partition(".")
            if family == "node":
                row = cluster.nodes.rows.get(subjects.unescape(rest))
                is_there = row is not None and bool(cluster.nodes.alive[row])
            elif family == "reservation":
                is_there = ("", subjects.unescape(rest)) in cluster.book.reservations
            elif family == "peers":
                namespace = subjects.unescape(rest)
                is_there = not namespace or namespace in cluster.namespaces
            elif family == "budget":
                is_there = subjects.parts(rest) in cluster.budgets or bool(cluster.eviction_inputs.unread)
            elif family == "gang":
                is_there = subjects.unescape(rest) in cluster.gangs.gangs or bool(cluster.eviction_inputs.unread)
            elif family in ("volume", "claim") and not cluster.volumes.is_complete:
                continue
            elif family == "volume":
                is_there = cluster.volumes.objects.volume(subjects.unescape(rest)) is not None
            elif family == "claim":
                namespace, name = subjects.parts(rest)
                is_there = cluster.volumes.objects.claim((namespace, name)) is not None
            else:
                continue
            if not is_there and cluster.is_mine(account):
                found.append(account)
        return found

    def _abandoned(self) -> Iterable[str]:
        """Plans that have been open, or without an entry, for a while. The clock only says when to try (R8)."""
        ledger = self.cluster.book.ledger
        now = self._clock.monotonic()
        unfinished = {plan for plan in ledger.members if ledger.plan_status(plan) in (None, PlanStatus.OPEN)}
        self._open_since = {plan: self._open_since.get(plan, now) for plan in unfinished}
        solvers = self.cluster.solvers
        return [
            plan
            for plan, since in self._open_since.items()
            if now - since > ABANDONED_AFTER_S and owner(plan, solvers) == self.cluster.me
        ]
