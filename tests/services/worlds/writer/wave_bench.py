"""The waves without binds, bus or HTTP: a Lease in the simulated API, a leader in memory, and what was begun."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.services.worlds.writer.decisions import make_decision
from tests.services.worlds.writer.store_api import StoreApi

from berth.bus.port import Committed, Stored, Write
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.wave_runner import WaveRunner
from berth.contracts import state, subjects
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, Epoch, GangRef, Plan, PlanStatus
from berth.kube.lease import KubeLease
from berth.runtime.clock import SystemClock
from berth.simcluster.store import Path


class FakeBinds:
    """Notes what would be carried out."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.given_up: list[str] = []
        self.letting_go: frozenset[str] = frozenset()

    def begin(self, decision: Decision) -> None:
        self.began.append(decision.name)

    def give_up(self, decision: Decision, reason: str) -> None:
        self.given_up.append(decision.name)


class FakeEpochs:
    """Raises the epoch without fences."""

    def __init__(self, bench: WaveBench) -> None:
        self.bench = bench
        self.reasons: list[str] = []
        self.finds_ledger_full = False

    async def raise_epoch(self, known: int, reason: str) -> int:
        self.reasons.append(reason)
        record = self.bench.lease.record
        assert record is not None
        epoch = max(known, record.epoch or 0) + 1
        await self.bench.lease.remember(epoch=epoch, plan="", seen=record)
        self.bench.write("epoch", Epoch(epoch=epoch))
        return epoch


class Leader:
    """The ledger's leader; what it holds is read by the view only when the test says so."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.sequence = 0
        self.commits: list[list[Write]] = []
        self.before_commit: Callable[[], None] = lambda: None
        self.error: Exception | None = None

    async def read(self, key: str) -> Stored | None:
        if self.error:
            raise self.error
        return self.stored.get(key)

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Committed:
        self.commits.append(list(writes))
        self.before_commit()
        return Committed(0)


class WaveBench:
    """`WaveRunner` with all that is around it."""

    def __init__(self, api: StoreApi) -> None:
        self.api = api
        api.store.create(Path("", "v1", "namespaces"), {"metadata": {"name": "berth-system"}})
        self.lease = KubeLease(api, "berth-system", "cluster-writer", "me", clock=SystemClock(), rng=random.Random(1))
        self.leader, self.binds, self.epochs = Leader(), FakeBinds(), FakeEpochs(self)
        self.evictions = FakeBinds()
        self.cluster = ClusterView(lambda *args: None)
        self.raised: list[int] = []
        parts: tuple[Any, ...] = (
            self.cluster,
            self.leader,
            self.lease,
            self.binds,
            self.evictions,
            self.epochs,
            SystemClock(),
        )
        self.wave_runner = WaveRunner(*parts, on_raised=lambda epoch, reason: self.raised.append(epoch))
        self.unread: list[tuple[str, Stored]] = []

    def write(self, key: str, message: Message, *, read: bool = True) -> None:
        self.leader.sequence += 1
        stored = Stored(self.leader.sequence, encode(message), False)
        self.leader.stored[key] = stored
        self.unread.append((key, stored))
        if read:
            self.read_on()

    def read_on(self) -> None:
        for key, stored in self.unread:
            if plan := self.cluster.read_ledger(key, stored.value, False, stored.sequence):
                self.wave_runner.plan_read(plan)
        self.unread.clear()

    def plan(
        self,
        plan: str,
        *pods: str,
        read: bool = True,
        gang: int = 0,
        alone: Sequence[str] = (),
        status: PlanStatus = PlanStatus.COMMITTED,
        nominates: bool = False,
    ) -> None:
        """`alone`: pods of the plan that are no members of its gang."""
        assert self.lease.record is not None
        epoch = self.lease.record.epoch or 0
        for name in (*pods, *alone):
            if self.api.raw(name) is None:
                self.api.pod(name)
            pod = self.api.seen(name)
            self.cluster.read_state(subjects.pod_key("default", name), encode(pod), deleted=False, gap=False)
            ref = GangRef(name="g", size=gang) if gang and name not in alone else None
            self.write(
                subjects.decision_key(epoch, "default", name),
                make_decision(pod, plan, "n", gang=ref, nominates=nominates),
                read=False,
            )
        self.write(subjects.plan_key(epoch, plan), Plan(id=plan, status=status), read=False)
        marker = state.Synced(kind="pods", version=self.api.store.version, complete=True)
        self.cluster.read_state(subjects.synced_key("pods"), encode(marker), deleted=False, gap=False)
        self.cluster.end_of_state()
        if read:
            self.read_on()

    def delete(self, name: str) -> None:
        """A pod goes, and STATE shows it at once."""
        self.cluster.read_state(subjects.pod_key("default", name), b"", deleted=True, gap=False)

    @property
    def named(self) -> str:
        """The plan that the Lease names."""
        assert self.lease.record is not None
        return self.lease.record.plan

    async def turn(self, times: int = 4) -> None:
        for _ in range(times):
            await self.wave_runner._turn()


async def wave_runner(api: StoreApi) -> WaveBench:
    """One that holds the Lease, in the first epoch."""
    bench = WaveBench(api)
    assert await bench.lease.try_acquire()
    await bench.turn(1)
    assert bench.lease.record is not None
    assert (bench.raised, bench.lease.record.mark) == ([1], (1, ""))
    return bench
