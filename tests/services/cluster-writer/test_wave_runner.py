"""Waves: what is read from the leader, what is written into the Lease, and when nothing may begin (R10)."""

from __future__ import annotations

import asyncio

import pytest
from tests.services.worlds.writer.store_api import StoreApi
from tests.services.worlds.writer.wave_bench import WaveBench, wave_runner

from berth.bus.errors import ApiError, Disconnected
from berth.cluster_writer.epochs import LostLeaseError
from berth.contracts import names, subjects
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Epoch, PlanStatus
from berth.kube.answer import Answer
from berth.simcluster.store import Path

LEASE = Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer")


@pytest.fixture
async def bench(api: StoreApi) -> WaveBench:
    return await wave_runner(api)


async def test_the_newest_plan_of_a_wave_is_named_before_anything_begins(bench):
    bench.plan("p1", "a")
    bench.plan("p2", "b", "c")
    await bench.turn(1)
    assert (bench.named, bench.binds.began) == ("p2", ["a", "b", "c"])
    await bench.turn()
    assert bench.binds.began == ["a", "b", "c"], "once"


async def test_a_wave_waits_for_no_bind_of_the_one_before(bench):
    """The Lease names the next plan while those binds are under way."""
    bench.plan("p1", "a")
    await bench.turn(1)
    bench.plan("p2", "b")
    await bench.turn(1)
    assert (bench.named, bench.binds.began) == ("p2", ["a", "b"])


async def test_who_takes_over_begins_what_came_before_the_plan_in_the_lease(bench):
    """Binds of earlier plans may be under way when the holder dies: the Lease says nothing of them."""
    bench.plan("p1", "a")
    await bench.turn(1)
    bench.plan("p2", "b")
    await bench.turn(1)
    bench.wave_runner.check_again()
    await bench.turn(2)
    assert bench.raised == [1], "nothing was lost"
    assert sorted(bench.binds.began[2:]) == ["a", "b"]


async def test_a_nomination_is_carried_out_and_never_bound(bench):
    bench.plan("p1", "a", nominates=True)
    bench.plan("p2", "b")
    await bench.turn()
    assert (bench.named, bench.evictions.began, bench.binds.began) == ("p2", ["a"], ["b"])


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
    bench.wave_runner.suspected_loss = "a test"
    await bench.turn()
    assert (bench.raised, bench.binds.began) == ([1, 2], ["a"])


async def test_an_epoch_that_is_lost_before_it_is_read_is_raised_again(bench, monkeypatch):
    """Written, acknowledged and noted in the Lease: nobody will ever read it."""
    monkeypatch.setattr("berth.cluster_writer.wave_runner.LOOK_EVERY_S", 0.0)
    raise_epoch = bench.epochs.raise_epoch

    async def in_vain(known, reason):
        bench.epochs.raise_epoch = raise_epoch
        await bench.lease.remember(epoch=known + 1, plan="", seen=bench.lease.record)
        bench.wave_runner.wake.set()
        return known + 1

    bench.epochs.raise_epoch = in_vain
    bench.wave_runner.suspected_loss = "a test"
    async with asyncio.timeout(10):
        await bench.turn(2)
    assert bench.raised == [1, 2, 3]
    bench.plan("p1", "a")
    await bench.turn()
    assert bench.binds.began == ["a"]


async def test_an_idle_writer_notices_that_the_bucket_is_gone(bench):
    bench.leader.error = ApiError(10059, "stream not found")
    bench.wave_runner._looked_at = float("-inf")
    await bench.turn(1)
    assert bench.wave_runner.suspected_loss
    bench.leader.error = None
    await bench.turn(1)
    assert bench.raised == [1, 2]


async def test_what_a_bind_suspects_while_the_leader_is_asked_is_not_forgotten(bench):
    """A clash ends its decision: only a new epoch brings the pod back."""
    asked = bench.leader.read

    async def read(key):
        bench.wave_runner.suspected_loss = "minor 0 is claimed twice"
        return await asked(key)

    bench.leader.read = read
    bench.wave_runner._looked_at = float("-inf")
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
    bench.wave_runner.check_again()
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
    bench.wave_runner.suspected_loss = "minor 0 is claimed twice"  # a bind that was under way says so
    notes = {names.ANNOTATION_EPOCH: "2"}
    api.store.patch(LEASE, {"spec": {"holderIdentity": ""}, "metadata": {"annotations": notes}})
    bench.write("epoch", Epoch(epoch=2))
    assert await bench.lease.try_acquire()
    bench.wave_runner.lease_changed()
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


async def test_after_a_reconnect_all_is_judged_again(bench):
    bench.plan("p1", "a")
    await bench.turn()
    bench.wave_runner.check_again()
    await bench.turn()
    assert bench.binds.began == ["a", "a"]


async def test_plans_are_forgotten_but_for_the_one_in_the_lease(bench, monkeypatch):
    """After a while: a decision that came under the number of one that was lost is not seen at once."""
    bench.plan("p0")
    bench.plan("p1", "a")
    await bench.turn()
    await bench.wave_runner.forget_plans()
    assert _keys(bench) == []
    monkeypatch.setattr("berth.cluster_writer.wave_runner.FORGET_AFTER_S", 0.0)
    await bench.wave_runner.forget_plans()
    assert _keys(bench) == [[subjects.plan_key(1, "p0")]]


async def test_a_plan_that_goes_on_while_others_are_forgotten_is_not(bench, monkeypatch):
    """Its deletion expects what was read when it was judged."""
    monkeypatch.setattr("berth.bus.deleting.BATCH_MAX", 1)
    monkeypatch.setattr("berth.cluster_writer.wave_runner.FORGET_AFTER_S", 0.0)
    bench.plan("p0")
    bench.plan("p1", status=PlanStatus.OPEN)
    judged = bench.cluster.book.ledger.expected(subjects.plan_key(1, "p1"))
    bench.plan("p2", "a")
    await bench.turn()
    bench.leader.before_commit = lambda: bench.plan("p1", "b")
    await bench.wave_runner.forget_plans()
    assert _keys(bench) == [[subjects.plan_key(1, "p0")], [subjects.plan_key(1, "p1")]]
    assert bench.leader.commits[1][0].expected == judged


async def test_a_stand_by_keeps_nothing_of_plans_that_are_gone(bench, api):
    await _lose_lease(bench, api)
    view = bench.cluster.book.ledger
    for number in range(3):
        plan = f"p{number}"
        bench.plan(plan, "a", gang=1)
        bench.cluster.begun.add((plan, "g"))
    bench.cluster.begun.add(("undecided", "g"))
    for key in (subjects.decision_key(1, "default", "a"), *(subjects.plan_key(1, f"p{n}") for n in range(2))):
        bench.cluster.read_ledger(key, b"", True, view.sequence + 1)
    await bench.wave_runner.forget_plans()
    assert bench.cluster.begun == {("p2", "g")}
    assert (bench.wave_runner._fresh, bench.leader.commits) == (set(), [])
    assert view.expected(subjects.decision_key(1, "default", "a")) == 0, "nothing is written there by a writer"
    assert view.expected(subjects.plan_key(1, "p2")) > 0


async def test_a_writer_that_is_cut_off_from_its_lease_keeps_nothing_of_plans_that_are_gone(bench):
    """It takes the Lease for its own for as long as the API server does not answer."""
    view = bench.cluster.book.ledger
    for number in range(3):
        bench.plan(f"p{number}")
    for number in range(2):
        bench.cluster.read_ledger(subjects.plan_key(1, f"p{number}"), b"", True, view.sequence + 1)
    bench.wave_runner._is_checked = False
    await bench.wave_runner.forget_plans()
    assert bench.wave_runner._fresh == {"p2"}


@pytest.mark.parametrize("epoch_first", [True, False])
async def test_a_gang_that_has_begun_is_remembered_while_the_ledger_is_read_again(bench, epoch_first):
    bench.plan("p1", "a", "b", gang=2)
    bench.cluster.begun.add(("p1", "g"))
    await bench.wave_runner.forget_plans()
    bench.cluster.book.reset_ledger()
    bench.wave_runner.check_again()
    if epoch_first:
        bench.cluster.read_ledger("epoch", bench.leader.stored["epoch"].value, False, 1)
    await bench.wave_runner.forget_plans()
    assert bench.cluster.begun == {("p1", "g")}
    for key, stored in bench.leader.stored.items():
        bench.cluster.read_ledger(key, stored.value, False, stored.sequence)
        await bench.wave_runner.forget_plans()
    assert bench.cluster.begun == {("p1", "g")}


async def test_a_gang_whose_plan_has_no_last_word_yet_is_remembered(bench):
    """Another writer has read it, and bound a member, before this one comes to the end of the batch."""
    bench.plan("p1", "a", "b", gang=2, read=False)
    for key, stored in bench.unread[:-1]:
        bench.cluster.read_ledger(key, stored.value, False, stored.sequence)
    bench.cluster.begun.add(("p1", "g"))
    await bench.wave_runner.forget_plans()
    assert bench.cluster.begun == {("p1", "g")}


async def test_a_plan_that_a_stand_by_has_read_begins_once_the_lease_is_its_own(bench, api):
    """And one that is read in the step in which it becomes its own, before anything is compared."""
    await _lose_lease(bench, api)
    bench.plan("p1", "a")
    assert bench.wave_runner._fresh == set()
    changed = []

    def is_ours(held):
        assert bench.lease.held is held
        bench.wave_runner.lease_changed()
        changed.append(held)

    bench.lease._on_change = is_ours
    api.store.patch(LEASE, {"spec": {"holderIdentity": ""}})
    assert await bench.lease.try_acquire()
    bench.plan("p2", "b")
    await bench.turn()
    assert (changed, bench.binds.began, bench.named) == ([True], ["a", "b"], "p2")


async def _lose_lease(bench, api):
    api.store.patch(LEASE, {"spec": {"holderIdentity": "other"}})
    await bench.lease.renew()
    assert not bench.lease.held
    bench.wave_runner.lease_changed()


def _keys(bench):
    return [[write.key for write in writes] for writes in bench.leader.commits]


async def test_the_loop_goes_on_after_errors(bench):
    bench.wave_runner.state_ready.set()
    bench.wave_runner.ledger_ready.set()
    bench.leader.error = Disconnected("gone")
    bench.plan("p1", "a")
    task = asyncio.create_task(bench.wave_runner.run())
    await asyncio.sleep(0.1)
    bench.leader.error = None
    async with asyncio.timeout(10):
        while not bench.binds.began:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


@pytest.mark.parametrize(
    "key", [subjects.decision_key(1, "default", "a"), subjects.plan_key(1, "p1"), subjects.account_key(1, "quota.=.t")]
)
async def test_an_entry_that_cannot_be_read_is_a_loss(bench, key):
    """Nobody knows any more what it held: the epoch is raised, and the solvers go on in the new one."""
    bench.plan("p1", "a")
    await bench.turn(1)
    with pytest.raises(InvalidMessage):
        bench.cluster.read_ledger(key, b"{", False, bench.leader.sequence + 1)
    bench.leader.sequence += 1
    await bench.turn(2)
    assert bench.raised == [1, 2]
    assert key in bench.epochs.reasons[-1]
    bench.plan("p2", "b")
    await bench.turn(2)
    assert bench.binds.began == ["a", "b"]
