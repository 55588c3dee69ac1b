"""Asks cluster-writer to write the status of the PodGroups whose gangs this solver decides; only when it changes."""

from __future__ import annotations

from datetime import UTC, datetime

from berth.bus.port import Clock, PublisherPort
from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.command import PatchObject
from berth.contracts.state import PodGroup
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.gang_status import next_status

API = "scheduling.sigs.k8s.io/v1alpha1/podgroups"
PATCHES_MAX = 100
"""Most patches in one pass; the rest waits for the next."""


class GangReports:
    """One pass after the other over the gangs that changed; a patch is repeated when the object does not show it."""

    def __init__(self, cluster: ClusterView, commands: PublisherPort, clock: Clock, *, retry_s: float = 10.0) -> None:
        self._cluster = cluster
        self._commands = commands
        self._clock = clock
        self._retry_s = retry_s
        self._asked: dict[str, tuple[int, float]] = {}

    async def tell(self) -> None:
        """Ask for what has to change."""
        cluster = self._cluster
        if not cluster.changed_gangs:
            return
        now = self._clock.monotonic()
        text = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        sent = 0
        for gang_id in sorted(cluster.changed_gangs):
            group = cluster.pod_groups.get(gang_id)
            if group is None or not cluster.is_mine(cluster.gangs.group_of(gang_id)):
                self._done(gang_id)
                continue
            gang = cluster.gangs.gangs.get(gang_id)
            members = sorted(gang.children) if gang else ()
            pods = [pod for name in members if (pod := cluster.book.pods.get(name)) is not None]
            status = next_status(group, pods, text)
            if not status:
                self._done(gang_id)
                continue
            asked = self._asked.get(gang_id)
            if asked is not None and asked[0] == group.version and now - asked[1] < self._retry_s:
                continue
            if sent >= PATCHES_MAX:
                return
            sent += 1
            self._asked[gang_id] = (group.version, now)
            await self._ask(group, status, int(now * 1000))

    def _done(self, gang_id: str) -> None:
        self._cluster.changed_gangs.discard(gang_id)
        self._asked.pop(gang_id, None)

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
