"""The loop of `monitorAllQuotas`: groups that have been over their runtime for too long are made to give back.

Between two rounds, so that nothing is tried meanwhile. Each group is one solver's; two that disagree about who is alive
meet at the group's key and accounts.
"""

from __future__ import annotations

import random as randomness
from typing import Final

from berth.bus.port import Clock
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod
from berth.placement_solver import metrics
from berth.placement_solver.between_rounds import commit_alone, new_plan, tell_rejected
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer
from berth.placement_solver.core.decide import nominating
from berth.placement_solver.core.displacers.lenders import Key
from berth.placement_solver.core.displacers.seam import Proposal
from berth.placement_solver.core.revoking import PLUGIN, Times, has_been_over, times_of
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.mishaps import told
from berth.placement_solver.readiness import Readiness
from berth.rules.preemption import BY_QUOTA
from berth.transaction.revocations import KIND, name_of_group

LOOK_EVERY_S: Final = 1.0
"""While no profile monitors quotas: what stands has to end all the same."""


class Revoking:
    """Revocations of one solver. `readiness` says whether its views may be planned on."""

    def __init__(
        self,
        cluster: ClusterView,
        verifier: Verifier,
        committer: Committer,
        readiness: Readiness,
        events: EventPublisher,
        clock: Clock,
        random: randomness.Random,
        *,
        revokes: bool,
    ) -> None:
        """`revokes`: preemption is not switched off; else what stands is taken back, and nothing new begun."""
        self._revokes = revokes
        self._cluster = cluster
        self._verifier = verifier
        self._committer = committer
        self._readiness = readiness
        self._events = events
        self._clock = clock
        self._random = random
        self._looked_at = float("-inf")
        self._triggered_ms: dict[Key, int] = {}

    async def look(self) -> None:
        """Take back what is no longer of use, and make groups give back that are due."""
        cluster, now = self._cluster, self._clock.monotonic()
        times = times_of(cluster.profiles.in_force()) if self._revokes else None
        if now - self._looked_at < (times.every_s if times is not None else LOOK_EVERY_S):
            return
        if not self._readiness.may_plan():
            return
        self._looked_at = now
        if times is None and not cluster.revocations.any_stand:
            return
        revocations = cluster.revocations
        idle = [each for each in revocations.to_take_back(cluster.now_ms) if cluster.is_mine(each.uid)]
        if idle:
            await self._committer.delete([(each.namespace, each.name) for each in idle])
            return
        if times is None or cluster.eviction_inputs.unread:
            return
        for key in self._due(times):
            if not self._readiness.may_plan():
                break
            await self._revoke(key)

    def _due(self, times: Times) -> list[Key]:
        cluster = self._cluster
        groups, now_ms = cluster.quotas.groups, cluster.now_ms
        over = {key: group for key, group in groups.items() if has_been_over(group, now_ms, times.delay_s)}
        # A group that came back within its runtime begins to count anew.
        self._triggered_ms = {key: at for key, at in self._triggered_ms.items() if key in over}
        return [
            key
            for key in sorted(over)
            if now_ms - self._triggered_ms.get(key, 0) > times.delay_s * 1_000
            and cluster.is_mine(name_of_group(*key)[1])
            and not cluster.revocations.is_at_it(key)
        ]

    async def _revoke(self, key: Key) -> None:
        cluster = self._cluster
        self._triggered_ms[key] = cluster.now_ms
        plan = new_plan(self._random)
        try:
            victims = cluster.revocations.victims(key, plan, cluster.now_ms / 1_000)
            problems = self._verifier.check_revocation(key, victims) if victims else []
        except Exception as error:
            told(error, PLUGIN, group="/".join(key))
            return
        if not victims:
            return
        if problems:
            tell_rejected("a revocation", plan, problems)
            return
        decision, revisions = revocation_decision(cluster, key, plan, victims)
        if self._readiness.is_behind(revisions):
            del self._triggered_ms[key]
            return
        outcome = await commit_alone(cluster, self._committer, self._readiness, decision, revisions)
        if outcome.status != "committed":
            del self._triggered_ms[key]
            return
        metrics.REVOKED.inc(len(victims))
        await self._events.nominated([decision])


def revocation_decision(
    cluster: ClusterView, key: Key, plan: str, victims: tuple[Pod, ...]
) -> tuple[Decision, dict[str, int]]:
    """The group's nomination, and the revision used on each account of the groups that pay for its victims."""
    groups = cluster.revocations.groups_of(victims)
    revisions = {account: at for each in groups for account, at in cluster.quotas.accounts(each).items()}
    namespace, name = name_of_group(*key)
    complete = cluster.book.complete
    decision = Decision(
        plan=plan,
        kind=KIND,
        namespace=namespace,
        name=name,
        uid=name,
        attempt=0,
        node="",
        pod_version=0,
        basis=complete["reservations"].version,
        other_basis=complete["pods"].version,
        decided_ms=cluster.now_ms,
    )
    gangs = {each.uid: gang.id for each in victims if (gang := cluster.gangs.strict_gang_of(each))}
    proposal = Proposal((), victims, (), BY_QUOTA, groups)
    return nominating([decision], proposal, cluster.budgets.values(), gangs, revisions)[0], revisions
