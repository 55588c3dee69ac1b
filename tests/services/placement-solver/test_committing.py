"""Plans into a real ledger: whole, staged, refused, of unknown outcome."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.bus import Bus, BusSettings
from berth.bus.errors import Disconnected
from berth.bus.port import Unknown, Write
from berth.contracts import buckets, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.ledger import AccountStamp, Allocation, Decision, Epoch, Plan, PlanStatus
from berth.placement_solver.committing import Committer
from berth.placement_solver.tidying import MARKERS_KEPT_S
from berth.runtime.clock import SystemClock
from berth.testing.builders import pod
from berth.testing.views import eventually
from berth.transaction.batch import abort_batch
from berth.transaction.ledger_view import LedgerView


class Sink:
    def __init__(self, view):
        self.view = view

    def reset(self):
        self.view.reset()

    def apply(self, entry):
        self.view.apply(entry.key, entry.value, entry.deleted, entry.sequence)

    def end(self, sequence):
        pass


class Ledger:
    """The real one, with faults on the next commits: `lose` the answer, `drop` the batch, or do something before."""

    def __init__(self, real):
        self.real = real
        self.faults = []
        self.sizes = []
        self.deaf = 0

    async def commit(self, writes, *, traceparent=None):
        self.sizes.append(len(writes))
        fault = self.faults.pop(0) if self.faults else None
        if fault == "drop":
            return Unknown("dropped")
        if callable(fault):
            await fault()
        result = await self.real.commit(writes)
        return Unknown("lost") if fault == "lose" else result

    async def read(self, key):
        if self.deaf:
            self.deaf -= 1
            raise Disconnected("not now")
        return await self.real.read(key)


class Bench:
    def __init__(self, bus):
        self.bus = bus
        self.view = LedgerView()
        self.ledger = Ledger(bus.ledger())
        self.committer = Committer(self.ledger, self.view, SystemClock(), "me")

    async def write(self, key, message):
        stored = await self.bus.ledger().read(key)
        value = None if message is None else encode(message)
        await self.bus.ledger().commit([Write(key, value, stored.sequence if stored else 0)])

    async def follow(self):
        stored = await self.bus.ledger().read(subjects.EPOCH_KEY)
        await eventually(lambda: self.view.sequence >= stored.sequence)

    async def newest(self, key, kind=None):
        stored = await self.bus.ledger().read(key)
        return None if stored is None or stored.deleted else decode(stored.value, kind) if kind else stored

    async def status(self, plan):
        entry = await self.newest(subjects.plan_key(1, plan), Plan)
        return entry and entry.status


@pytest.fixture
async def bench(nats_server):
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="placement-solver")
    await bus.ensure()
    bench = Bench(bus)
    await bench.write(subjects.EPOCH_KEY, Epoch(epoch=1))
    follow = asyncio.create_task(bus.follow(buckets.LEDGER, Sink(bench.view)).run())
    await bench.follow()
    yield bench
    follow.cancel()
    await asyncio.gather(follow, return_exceptions=True)
    await bus.close()


def decisions(plan, count, nodes=3):
    return [
        Decision(
            plan=plan,
            namespace="ns",
            name=f"p{index}",
            uid=f"u{index}",
            attempt=0,
            node=f"n{index % nodes}",
            pod_version=1,
            basis=1,
            allocation=Allocation(amounts={"cpu": 1}),
            accounts=[subjects.node_account(f"n{index % nodes}")],
        )
        for index in range(count)
    ]


async def test_a_plan_is_one_batch_in_the_order_of_the_rules(bench):
    outcome = await bench.committer.commit("p", decisions("p", 4), {})
    assert outcome.status == "committed"
    await eventually(lambda: bench.view.sequence == outcome.sequence)
    assert bench.view.plan_status("p") is PlanStatus.COMMITTED
    assert len(bench.view.members["p"]) == 4
    assert bench.ledger.sizes == [4 + 3 + 1]
    assert bench.view.expected(subjects.plan_key(1, "p")) == outcome.sequence, "the plan entry comes last"


async def test_a_refused_plan_tells_how_far_to_follow(bench):
    async def rival():
        await bench.write(subjects.account_key(1, "node.n0"), AccountStamp(plan="rival"))

    bench.ledger.faults = [rival]
    outcome = await bench.committer.commit("p", decisions("p", 2), {})
    assert outcome.status == "refused"
    stored = await bench.newest(subjects.account_key(1, "node.n0"))
    assert outcome.sequence >= stored.sequence
    assert await bench.status("p") is None
    await eventually(lambda: bench.view.sequence >= outcome.sequence)
    assert (await bench.committer.commit("q", decisions("q", 2), {})).status == "committed"


async def test_a_lost_answer_is_looked_up_and_never_sent_again(bench):
    bench.ledger.faults = ["lose"]
    bench.ledger.deaf = 2
    outcome = await bench.committer.commit("p", decisions("p", 2), {})
    assert outcome.status == "committed"
    assert len(bench.ledger.sizes) == 1
    assert (await bench.newest(subjects.plan_key(1, "p"))).sequence == outcome.sequence


async def test_a_batch_that_did_not_arrive_is_lost_for_good(bench):
    bench.ledger.faults = ["drop"]
    assert (await bench.committer.commit("p", decisions("p", 2), {})).status == "lost"
    assert len(bench.ledger.sizes) == 1
    assert (await bench.committer.commit("q", decisions("q", 2), {})).status == "committed"
    assert await bench.status("p") is None


async def test_a_gang_larger_than_a_batch_counts_with_its_last_stage(bench):
    seen = []

    async def look():
        seen.append(await bench.status("p"))

    bench.ledger.faults = [look] * 3
    outcome = await bench.committer.commit("p", decisions("p", 2300, nodes=40), {})
    assert outcome.status == "committed"
    assert len(bench.ledger.sizes) == 3
    assert max(bench.ledger.sizes) <= 1000
    assert seen == [None, PlanStatus.OPEN, PlanStatus.OPEN]
    entry = await bench.newest(subjects.plan_key(1, "p"), Plan)
    assert (entry.status, entry.stage, entry.decisions) == (PlanStatus.COMMITTED, 3, 2300)
    await eventually(lambda: bench.view.sequence >= outcome.sequence)
    assert len(bench.view.members["p"]) == 2300


async def test_a_staged_gang_that_is_refused_in_between_is_aborted(bench):
    async def rival():
        await bench.write(subjects.account_key(1, "node.n39"), AccountStamp(plan="rival"))

    bench.ledger.faults = [None, rival]
    assert (await bench.committer.commit("p", decisions("p", 1500, nodes=40), {})).status == "refused"
    assert await bench.status("p") is PlanStatus.ABORTED


async def test_capacity_that_a_rival_takes_before_a_later_stage_refuses_that_stage(bench):
    """Every stage expects what the plan was solved on (R1), not what the view shows when it is sent."""
    mine = decisions("p", 1500, nodes=1)
    taken = [msgspec.structs.replace(each, node="n9", accounts=["node.n9"]) for each in mine[1200:]]

    async def rival():
        key = subjects.account_key(1, "node.n9")
        await bench.write(key, AccountStamp(plan="rival"))
        stored = await bench.bus.ledger().read(key)
        await eventually(lambda: bench.view.sequence >= stored.sequence)

    bench.ledger.faults = [rival]
    assert (await bench.committer.commit("p", [*mine[:1200], *taken], {})).status == "refused"
    assert await bench.status("p") is PlanStatus.ABORTED


@pytest.mark.parametrize("fault", ["lose", "drop"])
async def test_a_staged_gang_whose_stage_has_an_unknown_outcome(bench, fault):
    bench.ledger.faults = [None, fault]
    outcome = await bench.committer.commit("p", decisions("p", 1500, nodes=40), {})
    assert outcome.status == ("committed" if fault == "lose" else "lost")
    assert await bench.status("p") is (PlanStatus.COMMITTED if fault == "lose" else PlanStatus.ABORTED)


async def test_somebody_who_gives_a_staged_gang_up_ends_it(bench):
    """The clock says only when to try: whoever writes the plan entry first has decided (R8)."""

    async def give_up():
        await eventually(lambda: bench.view.plan_status("p") is PlanStatus.OPEN)
        await bench.bus.ledger().commit([Write(*write) for write in abort_batch(bench.view, "p", "other")])

    bench.ledger.faults = [None, give_up]
    assert (await bench.committer.commit("p", decisions("p", 1500, nodes=40), {})).status == "refused"
    entry = await bench.newest(subjects.plan_key(1, "p"), Plan)
    assert (entry.status, entry.solver) == (PlanStatus.ABORTED, "other")


async def test_a_plan_that_ends_after_it_was_found_abandoned_is_left_alone(bench):
    """The newer sequence that its last word has brought is no leave to write over that word."""
    outcome = await bench.committer.commit("p", decisions("p", 3), {})
    await eventually(lambda: bench.view.sequence >= outcome.sequence)
    assert (await bench.committer.abort("p")).status == "refused"
    assert await bench.status("p") is PlanStatus.COMMITTED


async def test_a_view_that_has_not_read_its_own_plan_cannot_give_it_up(bench):
    """What a solver has sent gives its view no sequence to expect before the content is read (R1)."""
    late = LedgerView()
    late.apply(subjects.EPOCH_KEY, encode(Epoch(epoch=1)), False, 1)
    committer = Committer(bench.ledger, late, SystemClock(), "me")
    assert (await committer.commit("p", decisions("p", 1500, nodes=40), {})).status == "committed"
    assert (await committer.abort("p")).status == "refused"
    assert await bench.status("p") is PlanStatus.COMMITTED


async def test_an_epoch_that_begins_in_between_ends_a_staged_gang(bench):
    async def raise_epoch():
        await bench.write(subjects.EPOCH_KEY, Epoch(epoch=2))
        await bench.follow()

    bench.ledger.faults = [raise_epoch]
    assert (await bench.committer.commit("p", decisions("p", 1500, nodes=40), {})).status == "lost"
    assert len(bench.ledger.sizes) == 1


async def test_tidying_deletes_what_it_can(bench):
    outcome = await bench.committer.commit("p", decisions("p", 3), {})
    await eventually(lambda: bench.view.sequence >= outcome.sequence)

    async def rival():
        await bench.write(subjects.decision_key(1, "ns", "p1"), decisions("other", 2)[1])

    bench.ledger.faults = [rival]
    await bench.committer.delete([("ns", "p0"), ("ns", "p1")], ["node.n2"])
    await eventually(lambda: set(bench.view.decisions) == {("ns", "p1"), ("ns", "p2")})
    assert bench.view.decisions["ns", "p1"].decision.plan == "other"
    await eventually(lambda: "node.n2" not in bench.view.stamps)
    # A deletion marker keeps its sequence: the next decision under the name has to expect it.
    assert (await bench.committer.commit("q", decisions("q", 1), {})).status == "committed"


@pytest.mark.parametrize("messages_max", [1000, 6])
async def test_markers_that_the_view_forgot_before_the_server_are_learned_from_a_refusal(bench, messages_max):
    committer = Committer(bench.ledger, bench.view, SystemClock(), "me", messages_max=messages_max)
    outcome = await committer.commit("p", decisions("p", 3), {})
    await eventually(lambda: bench.view.sequence >= outcome.sequence)
    await committer.delete([("ns", "p0"), ("ns", "p1"), ("ns", "p2")], ["node.n0", "node.n1"])
    await eventually(lambda: not bench.view.decisions and set(bench.view.stamps) == {"node.n2"})
    bench.view.forget_markers(0.0, 0.0)
    assert (await committer.commit("q", decisions("q", 3), {})).status == "refused"
    if messages_max < 1000:  # each stage learns of its own keys
        assert (await committer.commit("r", decisions("r", 3), {})).status in ("refused", "committed")
    assert (await committer.commit("s", decisions("s", 3), {})).status == "committed"


async def test_a_marker_that_the_view_has_not_read_is_followed_and_not_taken_from_the_leader(bench):
    """What was committed before it has to be read first (R1, R2)."""
    late = LedgerView()
    late.apply(subjects.EPOCH_KEY, encode(Epoch(epoch=1)), False, 1)
    outcome = await bench.committer.commit("p", decisions("p", 1), {})
    await eventually(lambda: bench.view.sequence >= outcome.sequence)
    await bench.committer.delete([], ["node.n0"])
    refused = await Committer(bench.ledger, late, SystemClock(), "me").commit("q", decisions("q", 1), {})
    assert (refused.status, refused.sequence) == ("refused", outcome.sequence + 1)
    assert late.expected(subjects.account_key(1, "node.n0")) == 0


async def test_a_plan_that_was_deleted_between_its_stages_stays_refused(bench):
    """Its solver expects what it has written itself, whatever its view has forgotten (R8)."""

    async def delete():
        key = subjects.plan_key(1, "p")
        await bench.write(key, None)
        stored = await bench.bus.ledger().read(key)
        await eventually(lambda: bench.view.sequence >= stored.sequence)
        assert bench.view.expected(key) == 0

    bench.ledger.faults = [None, delete]
    assert (await bench.committer.commit("p", decisions("p", 1500, nodes=40), {})).status == "refused"
    assert await bench.status("p") is None


async def test_markers_are_forgotten_also_while_nothing_may_be_planned(solving):
    run = solving()
    run.node("n0", cpu=4000)
    bench = SolverBench(run)
    view = bench.run.cluster.book.ledger
    bench.run.pod(pod("a").requests(cpu=1000))
    await bench.until_idle()
    bench.run.delete_pod("a")
    await bench.rounds.tidy()
    bench.rounds.readiness.starts_over(buckets.STATE)
    key = subjects.decision_key(view.epoch.epoch, "default", "a")
    marker = view.expected(key)
    assert marker == view.sequence
    for passed_s, expected in ((0, marker), (MARKERS_KEPT_S - 1, marker), (1, 0)):
        bench.clock.time += passed_s
        await bench.rounds.tidy()
        assert view.expected(key) == expected
