"""Waves: what is read from the leader, what is written into the Lease, and when nothing may begin (R9, R10)."""

from __future__ import annotations

import asyncio
import random

import pytest

from berth.bus.errors import ApiError, Disconnected
from berth.bus.port import Committed, Stored
from berth.cluster_writer.acting import Acting
from berth.cluster_writer.epochs import LostLeaseError
from berth.cluster_writer.picture import Picture
from berth.contracts import names, state, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch, GangRef, Plan, PlanStatus
from berth.kube.answer import Answer
from berth.kube.lease import KubeLease
from berth.runtime.clock import SystemClock
from berth.simcluster.store import Path

LEASE = Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer")


class FakeBinds:
    def __init__(self):
        self.began, self.given_up = [], []

    def begin(self, decision):
        self.began.append(decision.name)

    def give_up(self, decision, reason):
        self.given_up.append(decision.name)


class FakeEpochs:
    def __init__(self, bench):
        self.bench = bench
        self.reasons = []

    async def raise_epoch(self, known, reason):
        self.reasons.append(reason)
        record = self.bench.lease.record
        epoch = max(known, record.epoch or 0) + 1
        await self.bench.lease.remember(epoch=epoch, plan="", seen=record)
        self.bench.write("epoch", Epoch(epoch=epoch))
        return epoch


class Leader:
    """The ledger's leader; what it holds is read by the picture only when the test says so."""

    def __init__(self):
        self.stored = {}
        self.sequence = 0
        self.commits = []
        self.error = None

    async def read(self, key):
        if self.error:
            raise self.error
        return self.stored.get(key)

    async def commit(self, writes, *, traceparent=None):
        self.commits.append([write.key for write in writes])
        return Committed(0)


class Bench:
    def __init__(self, api, decide):
        self.api, self.decide = api, decide
        api.store.create(Path("", "v1", "namespaces"), {"metadata": {"name": "berth-system"}})
        self.lease = KubeLease(api, "berth-system", "cluster-writer", "me", clock=SystemClock(), rng=random.Random(1))
        self.leader, self.binds, self.epochs = Leader(), FakeBinds(), FakeEpochs(self)
        self.picture = Picture(lambda *args: None)
        self.raised = []
        self.acting = Acting(
            self.picture,
            self.leader,
            self.lease,
            self.binds,
            self.epochs,
            SystemClock(),
            on_raised=lambda epoch, reason: self.raised.append(epoch),
        )
        self.unread = []

    def write(self, key, message, *, read=True):
        self.leader.sequence += 1
        stored = Stored(self.leader.sequence, encode(message), False)
        self.leader.stored[key] = stored
        self.unread.append((key, stored))
        if read:
            self.read_on()

    def read_on(self):
        for key, stored in self.unread:
            if plan := self.picture.read_ledger(key, stored.value, False, stored.sequence):
                self.acting.plan_read(plan)
        self.unread.clear()

    def plan(self, plan, *pods, read=True, gang=0, alone=(), status=PlanStatus.COMMITTED):
        """`alone`: pods of the plan that are no members of its gang."""
        epoch = self.lease.record.epoch
        for name in (*pods, *alone):
            if self.api.raw(name) is None:
                self.api.pod(name)
            pod = self.api.seen(name)
            self.picture.read_state(subjects.pod_key("default", name), encode(pod), deleted=False, gap=False)
            ref = GangRef(name="g", size=gang) if gang and name not in alone else None
            self.write(subjects.decision_key(epoch, "default", name), self.decide(pod, plan, "n", gang=ref), read=False)
        self.write(subjects.plan_key(epoch, plan), Plan(id=plan, status=status), read=False)
        marker = state.Synced(kind="pods", version=self.api.store.version, complete=True)
        self.picture.read_state(subjects.synced_key("pods"), encode(marker), deleted=False, gap=False)
        self.picture.end_of_state()
        if read:
            self.read_on()

    @property
    def named(self):
        return self.lease.record.plan

    async def turn(self, times=4):
        for _ in range(times):
            await self.acting._turn()


@pytest.fixture
async def bench(api, decide):
    bench = Bench(api, decide)
    assert await bench.lease.try_acquire()
    await bench.turn(1)
    assert (bench.raised, bench.lease.record.mark) == ([1], (1, ""))
    return bench


async def test_the_newest_plan_of_a_wave_is_named_before_anything_begins(bench):
    bench.plan("p1", "a")
    bench.plan("p2", "b", "c")
    await bench.turn(1)
    assert (bench.named, bench.binds.began) == ("p2", ["a", "b", "c"])
    await bench.turn()
    assert bench.binds.began == ["a", "b", "c"], "once"


@pytest.mark.parametrize("status", [PlanStatus.OPEN, PlanStatus.ABORTED])
async def test_only_committed_plans_begin(bench, status):
    bench.plan("p1", "a", status=status)
    await bench.turn()
    assert (bench.named, bench.binds.began) == ("", [])


async def test_a_plan_that_the_leader_does_not_hold_is_a_loss(bench):
    bench.plan("p1", "a")
    await bench.turn(1)
    bench.plan("p2", "b")
    del bench.leader.stored[subjects.plan_key(1, "p1")]
    await bench.turn(1)
    assert bench.binds.began == ["a"]
    assert bench.named == "p1", "the trace of the loss is not overwritten"
    await bench.turn(1)
    assert bench.raised == [1, 2]
    assert "p1" in bench.epochs.reasons[-1]


async def test_another_epoch_at_the_leader_is_a_loss(bench):
    bench.plan("p1", "a")
    bench.write("epoch", Epoch(epoch=7), read=False)
    await bench.turn(2)
    assert bench.binds.began == []
    assert bench.raised == [1, 2]


async def test_a_plan_that_is_read_before_the_raise_of_its_epoch_returns_begins(bench):
    """The answer to the epoch's write may be late: solvers plan in the new epoch, and we read, before it is here."""
    raise_epoch = bench.epochs.raise_epoch

    async def late(known, reason):
        epoch = await raise_epoch(known, reason)
        bench.plan("early", "a")
        return epoch

    bench.epochs.raise_epoch = late
    bench.acting.suspected_loss = "a test"
    await bench.turn()
    assert (bench.raised, bench.binds.began) == ([1, 2], ["a"])


async def test_an_idle_writer_notices_that_the_bucket_is_gone(bench):
    bench.leader.error = ApiError(10059, "stream not found")
    bench.acting._looked_at = float("-inf")
    await bench.turn(1)
    assert bench.acting.suspected_loss
    bench.leader.error = None
    await bench.turn(1)
    assert bench.raised == [1, 2]


async def test_what_a_bind_suspects_while_the_leader_is_asked_is_not_forgotten(bench):
    """A clash ends its decision: only a new epoch brings the pod back."""
    asked = bench.leader.read

    async def read(key):
        bench.acting.suspected_loss = "minor 0 is claimed twice"
        return await asked(key)

    bench.leader.read = read
    bench.acting._looked_at = float("-inf")
    await bench.turn(1)
    bench.leader.read = asked
    await bench.turn(1)
    assert (bench.raised, bench.epochs.reasons[-1]) == ([1, 2], "minor 0 is claimed twice")


async def test_a_bus_that_does_not_answer_is_no_loss(bench):
    bench.plan("p1", "a")
    bench.leader.error = Disconnected("gone")
    with pytest.raises(Disconnected):
        await bench.turn(1)
    bench.leader.error = None
    await bench.turn()
    assert (bench.raised, bench.binds.began) == ([1], ["a"])


async def test_a_successor_that_has_not_read_far_enough_waits(bench):
    """The Lease names a plan that this follower has not read: a wave of older plans would make the Lease forget it."""
    bench.plan("p1", "a")
    bench.plan("p2", "b", read=False)
    await bench.lease.remember(epoch=1, plan="p2", seen=bench.lease.record)
    bench.acting.check_again()
    await bench.turn()
    assert (bench.named, bench.binds.began) == ("p2", [])
    bench.read_on()
    await bench.turn()
    assert (bench.named, bench.binds.began, bench.raised) == ("p2", ["a", "b"], [1])


async def test_a_lease_that_another_holds_stops_the_wave(bench, api):
    bench.plan("p1", "a")
    api.store.patch(LEASE, {"spec": {"holderIdentity": "other"}})
    with pytest.raises(LostLeaseError):
        await bench.turn(1)
    assert bench.binds.began == []


async def test_what_was_suspected_under_a_former_lease_is_no_reason_in_a_later_one(bench, api):
    """Another writer has had the Lease in between, and has settled the matter."""
    api.store.patch(LEASE, {"spec": {"holderIdentity": "other"}})
    await bench.lease.renew()
    bench.acting.suspected_loss = "minor 0 is claimed twice"  # a bind that was under way says so
    notes = {names.ANNOTATION_EPOCH: "2"}
    api.store.patch(LEASE, {"spec": {"holderIdentity": ""}, "metadata": {"annotations": notes}})
    bench.write("epoch", Epoch(epoch=2))
    assert await bench.lease.try_acquire()
    bench.acting.lease_changed()
    await bench.turn(1)
    assert bench.raised == [1]


async def test_a_lease_that_remembers_something_else_is_compared_again(bench, api):
    """Held, but changed by a hand from outside: look again before going on."""
    bench.plan("p1", "a")
    api.store.patch(LEASE, {"metadata": {"annotations": {names.ANNOTATION_EPOCH: "5"}}})
    await bench.turn(1)
    assert bench.binds.began == []
    await bench.turn(1)
    assert bench.raised == [1, 6]


@pytest.mark.parametrize("status", [0, 500, 429])
async def test_a_lease_write_of_unknown_outcome_begins_nothing_yet(bench, api, status):
    bench.plan("p1", "a")
    api.on("patch", lambda *args: Answer(status))
    if status != 429:
        api.on("get", lambda *args: Answer(status))
    await bench.turn(1)
    assert bench.binds.began == []
    await bench.turn(2)
    assert (bench.binds.began, bench.named) == (["a"], "p1")


async def test_a_gang_that_is_not_whole_is_given_up_and_never_named(bench):
    bench.plan("p1", "a", "b", gang=3)
    bench.plan("p2", "c")
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a", "b"], ["c"], "p2")


async def test_a_gang_that_has_begun_goes_on_when_its_bound_member_is_gone(bench, api):
    bench.plan("p1", "a", "b", gang=2)
    await bench.turn()
    assert bench.binds.began == ["a", "b"]
    notes = {names.ANNOTATION_PLAN: "p1"}
    body = {"metadata": {"name": "a", "annotations": notes}, "target": {"kind": "Node", "name": "n"}}
    assert api.store.bind("default", "a", body).status == 201
    key = subjects.pod_key("default", "a")
    bench.picture.read_state(key, encode(api.seen("a")), deleted=False, gap=False)
    api.delete("a")
    bench.picture.read_state(key, str(api.store.version).encode(), deleted=True, gap=False)
    bench.acting.check_again()
    await bench.turn()
    assert bench.binds.given_up == []
    assert "b" in bench.binds.began[2:]


async def test_a_gang_that_loses_a_member_while_the_lease_is_written_does_not_begin(bench, api):
    """The API server may be away for half a minute between the look at the gang and its begin."""
    bench.plan("p1", "a", "b", gang=2, alone=("c",))

    def member_goes(*_args):
        bench.picture.read_state(subjects.pod_key("default", "b"), b"", deleted=True, gap=False)

    api.on("patch", member_goes)
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a"], ["c"], "p1")


async def test_a_gang_is_not_judged_while_the_ledger_is_read_anew(bench, api):
    """It starts over while the Lease is written, and half of the gang has been read again."""
    bench.plan("p1", "a", "b", gang=2)

    def starts_over(*_args):
        api.on("patch", None)
        member = bench.picture.book.ledger.decisions.pop(("default", "b"))
        bench.picture.book.ledger.members["p1"].discard(("default", "b"))
        bench.acting.check_again()
        read_again.append(member)

    read_again = []
    api.on("patch", starts_over)
    await bench.turn(1)
    assert read_again
    assert (bench.binds.given_up, bench.binds.began) == ([], [])


async def test_pods_that_share_a_plan_with_a_broken_gang_begin(bench):
    """After an outage one plan holds all that has gathered, gangs of which members are gone by now among it."""
    bench.plan("p1", "a", "b", gang=3, alone=("c", "d"))
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a", "b"], ["c", "d"], "p1")


async def test_after_a_reconnect_all_is_judged_again(bench):
    bench.plan("p1", "a")
    await bench.turn()
    bench.acting.check_again()
    await bench.turn()
    assert bench.binds.began == ["a", "a"]


async def test_plans_are_forgotten_but_for_the_one_in_the_lease(bench):
    bench.plan("p0")
    bench.plan("p1", "a")
    await bench.turn()
    await bench.acting.forget_plans()
    assert bench.leader.commits == [[subjects.plan_key(1, "p0")]]


async def test_the_loop_goes_on_after_errors(bench):
    bench.acting.state_ready.set()
    bench.acting.ledger_ready.set()
    bench.leader.error = Disconnected("gone")
    bench.plan("p1", "a")
    task = asyncio.create_task(bench.acting.run())
    await asyncio.sleep(0.1)
    bench.leader.error = None
    async with asyncio.timeout(10):
        while not bench.binds.began:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
