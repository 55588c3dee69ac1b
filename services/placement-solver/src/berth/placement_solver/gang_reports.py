"""Asks cluster-writer to write the status of the PodGroups whose gangs this solver decides; only when it changes, and
counters alone not more often than every other second. Counts what is wrong with their groups."""

from __future__ import annotations

from datetime import UTC, datetime

from berth.bus.port import Clock, PublisherPort
from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.command import PatchObject
from berth.contracts.state import PodGroup
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.gang_status import next_status

API = "scheduling.sigs.k8s.io/v1alpha1/podgroups"
PATCHES_MAX = 100
"""Most patches in one second; the rest waits."""
COUNTERS_EVERY_S = 2.0
"""A phase is told at once, counters of an object not more often than this."""


class GangReports:
    """One pass after the other over the gangs that changed; a patch is repeated when the object does not show it."""

    def __init__(self, cluster: ClusterView, commands: PublisherPort, clock: Clock, *, retry_s: float = 10.0) -> None:
        self._cluster = cluster
        self._commands = commands
        self._clock = clock
        self._retry_s = retry_s
        self._asked: dict[str, tuple[int, float]] = {}
        self._told_at: dict[str, float] = {}
        self._second, self._sent = 0, 0
        self._problems: dict[str, int] = {}

    async def tell(self) -> None:
        """Ask for what has to change."""
        cluster = self._cluster
        if not cluster.changed_gangs:
            return
        now = self._clock.monotonic()
        if int(now) != self._second:
            self._second, self._sent = int(now), 0
        text = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for gang_id in sorted(cluster.changed_gangs):
            self._count_problems(gang_id)
            group = cluster.pod_groups.get(gang_id)
            if group is None or not cluster.is_mine(cluster.gangs.group_of(gang_id)):
                self._done(gang_id)
                continue
            gang = cluster.gangs.gangs.get(gang_id)
            members = sorted(gang.children) if gang else ()
            seen = [each for name in members if (each := cluster.book.seen(name)) is not None]
            status = next_status(group, seen, text)
            if not status:
                self._done(gang_id)
                continue
            asked = self._asked.get(gang_id)
            if asked is not None and asked[0] == group.version and now - asked[1] < self._retry_s:
                continue
            if "phase" not in status and now - self._told_at.get(gang_id, float("-inf")) < COUNTERS_EVERY_S:
                continue
            if self._sent >= PATCHES_MAX:
                return
            self._sent += 1
            self._told_at[gang_id] = now
            self._asked[gang_id] = (group.version, now)
            await self._ask(group, status, int(now * 1000))

    def _count_problems(self, gang_id: str) -> None:
        cluster = self._cluster
        found = len(cluster.gangs.problems(gang_id)) if cluster.is_mine(cluster.gangs.group_of(gang_id)) else 0
        if found:
            self._problems[gang_id] = found
        else:
            self._problems.pop(gang_id, None)
        metrics.GANG_PROBLEMS.set(sum(self._problems.values()))

    def _done(self, gang_id: str) -> None:
        self._cluster.changed_gangs.discard(gang_id)
        self._asked.pop(gang_id, None)
        if gang_id not in self._cluster.pod_groups:
            self._told_at.pop(gang_id, None)

    async def _ask(self, group: PodGroup, status: dict[str, object], at_ms: int) -> None:
        patch = PatchObject(
            api=API,
            namespace=group.namespace,
            name=group.name,
            uid=group.uid,
            version=str(group.version),
            status=status,
            status_subresource=False,
        )
        await self._commands.publish(
            subjects.command_subject("patch", "podgroups", group.namespace, group.name),
            encode(patch),
            id=f"podgroup-{group.uid}-{group.version}-{at_ms}",
            type="object.patch.v1",
        )
