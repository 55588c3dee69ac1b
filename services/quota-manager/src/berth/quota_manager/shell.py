"""Bus in, bus out: followers feed the desk, one loop writes what it answers. No decision is taken here.

Both replicas read everything all the time; only the holder of the lease computes and writes. What a former holder might
still write is refused by the sequences that every write expects.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from berth.bus.port import OwnedPort
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.question import StatusAnswer
from berth.contracts.quota import QuotaGroup
from berth.contracts.subjects import command_subject
from berth.quota_manager.handlers import Announcement, Desk, encode_group
from berth.quota_manager.settings import Settings
from berth.runtime import ActiveStandby, Context, Periodic
from berth.telemetry import counter, gauge, histogram

SERVICE = "quota-manager"
REST = 4.0
"""Rounds of a busy tree are spaced by this many times their length, so that a flood of pods costs a fifth of a core."""
TICK_S = 0.5
"""How often time alone is a reason to look: write-backs and alarms that became due."""

GROUPS = gauge("berth_quota_groups", "Quota groups, the built-in ones included.")
PODS = gauge("berth_quota_pods", "Pods that count against a quota group.")
PROBLEMS = gauge("berth_quota_problems", "Things that are wrong with ElasticQuota objects now.")
OVERUSED = gauge("berth_quota_overused_groups", "Groups that use more than their runtime.")
UNREADABLE = gauge("berth_quota_unreadable_messages", "Messages of STATE that could not be read since the start.")
PUBLISHED = counter("berth_quota_published_total", "Messages written to QUOTA.", ["what"])
WRITEBACKS = counter("berth_quota_writebacks_total", "Status writes of ElasticQuotas that were asked for.")
SETTLING = histogram("berth_quota_settle_seconds", "Time to bring all figures in order.")


class Shell:
    """The parts of one replica and how they are wired."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        self.context = context
        self.wake = asyncio.Event()
        self.desk = Desk(
            settings.rules,
            on_news=self.wake.set,
            ignores_deleting=settings.quota_ignore_terminating,
            interval_s=settings.writeback_interval_s,
            retry_s=settings.writeback_retry_s,
            grace_s=settings.overuse_grace_s,
        )
        self.owned: OwnedPort = context.bus.owned(
            buckets.QUOTA,
            sink=self.desk.own,
            on_conflict=self._reconsider,
            on_reset=partial(self._reconsider, None),
        )
        self.standby = ActiveStandby(context.bus, SERVICE, context.instance, ttl_s=settings.lease_ttl_s)
        self._patches_allowed = 0.0
        self._last_step = context.clock.monotonic()

    async def run(self) -> None:
        """Starts everything and works until cancelled."""
        context = self.context
        context.health.add("state", lambda: (self.desk.state.is_complete, self.desk.state.missing))
        context.health.add("lease", self.standby.check)
        follower = context.bus.follow(buckets.STATE, self.desk.state)
        context.spawn(follower.run(), name="follow-state")
        context.spawn(self._tick(), name="tick")
        await context.bus.serve(SERVICE, _version(), {"status": self._status})
        await self.owned.ready()
        try:
            await self.standby.run(self._work)
        finally:
            await self.owned.drain()

    async def _work(self) -> None:
        """Compute and write for as long as this replica is the active one."""
        context = self.context
        context.log.info("active: publishing quotas")
        self.desk.renew()
        while True:
            began = context.clock.monotonic()
            if self.desk.state.is_complete:
                self._step()
            busy_s = context.clock.monotonic() - began
            await self.owned.wait_while_full()
            await self.wake.wait()
            self.wake.clear()
            await context.clock.sleep(max(context.settings.window_s, REST * busy_s))

    def _step(self) -> None:
        clock = self.context.clock
        now = clock.monotonic()
        with SETTLING.time():
            self.desk.settle(now)
        # Write-backs come first: they decide for which groups a changed demand is published as well.
        self._write_back(now)
        for key, message in self.desk.writes(int(clock.now() * 1000), self.owned.keys()).items():
            if message is None:
                self.owned.delete(key)
                PUBLISHED.labels("deletion").inc()
            else:
                self._publish(key, message)
        for announcement in self.desk.announcements(now):
            self._announce(announcement)
        self._measure()

    def _publish(self, key: str, message: QuotaGroup) -> None:
        try:
            if self.owned.put(key, encode_group(message)):
                PUBLISHED.labels("group").inc()
        except ValueError as error:  # a name or a group too large for the bus
            self.context.log.error("quota cannot be published", group=message.name, error=str(error))

    def _write_back(self, now: float) -> None:
        """Commands for the objects whose time has come; a bucket of tokens keeps their sum in bounds."""
        per_s = self.context.settings.writebacks_per_s
        elapsed_s = max(0.0, now - self._last_step)
        self._last_step = now
        self._patches_allowed = min(self._patches_allowed + elapsed_s * per_s, float(per_s))
        patches = self.desk.patches(now, int(self._patches_allowed))
        self._patches_allowed -= len(patches)
        commands = self.context.bus.commands()
        for patch in patches:
            subject = command_subject("patch", "elasticquotas", patch.namespace, patch.name)
            identity = f"{SERVICE}.{patch.uid}.{int(self.context.clock.now() * 1000)}"
            try:
                commands.offer(subject, encode(patch), id=identity, type="object.patch.v1")
            except (InvalidMessage, ValueError) as error:
                self.context.log.error("status cannot be written", group=patch.name, error=str(error))
                continue
            WRITEBACKS.inc()

    def _announce(self, announcement: Announcement) -> None:
        subject, event, kind, text = announcement
        self.context.log.warning(kind, subject=subject, text=text[:500])
        identity = f"{SERVICE}.{subject}.{int(self.context.clock.now() * 1000)}"
        tag = str(event.__struct_config__.tag)
        self.context.bus.events().offer(subject, encode(event), id=identity, type=tag)

    def _measure(self) -> None:
        desk = self.desk
        GROUPS.set(len(desk.engine.forest.groups))
        PODS.set(len(desk.engine.book))
        PROBLEMS.set(len(desk.problems))
        OVERUSED.set(desk.alarms.over)
        UNREADABLE.set(desk.state.broken)

    async def _tick(self) -> None:
        async for _ in Periodic(self.context.clock, TICK_S).ticks():
            self.wake.set()

    def _reconsider(self, key: str | None) -> None:
        self.desk.reconsider(key)
        self.wake.set()

    async def _status(self, question: bytes) -> bytes:
        desk = self.desk
        answer = StatusAnswer(
            service=SERVICE,
            instance=self.context.instance,
            active=self.standby.active,
            ready=desk.state.is_complete,
            facts={
                "groups": len(desk.engine.forest.groups),
                "trees": len(desk.engine.forest.roots),
                "pods": len(desk.engine.book),
                "nodes": desk.engine.nodes,
                "problems": len(desk.problems),
                "overused groups": desk.alarms.over,
                "write-backs waiting": len(desk.pace),
                "unreadable messages": desk.state.broken,
                "view": desk.state.missing,
            },
        )
        return encode(answer)


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()


def _version() -> str:
    try:
        return version(f"berth-{SERVICE}")
    except PackageNotFoundError:
        return "0.0.0"
