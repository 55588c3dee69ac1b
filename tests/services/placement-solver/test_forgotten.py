"""Whoever waits is tried again once what it waits for is there: after a pause, not only at the flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.bus.port import Committed, Refused, Unknown
from berth.contracts import buckets, names, subjects
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.kube import ControllerReference, LabelSelector, OwnerReference, ReservationOwner
from berth.contracts.ledger import AccountStamp, Epoch
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.queue import BACKOFF_MAX_S, RETRY_S
from berth.placement_solver.optimiser import Answer
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.testing.builders import gpu_slots, pod

SOON_S = 15.0
assert BACKOFF_MAX_S < SOON_S < RETRY_S

OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]
AMOUNTS = {names.CPU: 4000}


@pytest.fixture
def bench(solving: type[Any]) -> SolverBench:
    run = solving()
    run.node("n0", cpu=4000)
    return SolverBench(run)


async def soon(bench: SolverBench, seconds: float = SOON_S) -> set[str]:
    """Who is placed after so long."""
    until = bench.clock.time + seconds
    while bench.clock.time < until:
        bench.clock.time += 0.5
        await bench.until_idle()
    return set(bench.placed())


def kept(**fields: Any) -> Reservation:
    fields = {"template": PodTemplate(requests=AMOUNTS), "owners": OWNERS, **fields}
    return Reservation(name="r", uid="r", version=0, **fields)


def placed_kept(**fields: Any) -> Reservation:
    return kept(phase="Available", node="n0", allocatable=AMOUNTS, **fields)


def capacity_of(owners: list[ReservationOwner]) -> ReservedCapacity:
    fields: dict[str, Any] = {"name": "r", "uid": "r", "revision": 1, "phase": "Available", "node": "n0"}
    return ReservedCapacity(**fields, amounts=AMOUNTS, owners=owners, usable=True)


# --- capacity that a plan gives back
# --------------------------------------------------------------------------------------


async def test_a_pod_that_is_deleted_while_its_plan_is_committed_leaves_its_capacity(bench: SolverBench) -> None:
    bench.run.pods(pod(name).requests(cpu=4000) for name in "ab")
    bench.ledger.before_commit.append(lambda: bench.run.delete_pod("a"))
    await bench.until_idle()
    assert bench.run.cluster.nodes.free[0, 0] == 4000
    assert "b" in await soon(bench)


async def test_a_plan_of_an_epoch_that_is_over_leaves_its_capacity(bench: SolverBench) -> None:
    bench.run.pods(pod(name).requests(cpu=4000) for name in "ab")
    bench.ledger.before_commit.append(lambda: bench.run.ledger.append("epoch", encode(Epoch(epoch=2))))
    await bench.rounds.round()
    assert bench.placed() == {}
    bench.run.delete_pod("a")
    assert "b" in await soon(bench)


@pytest.mark.parametrize("answer", [Refused(10071, "wrong last sequence"), Unknown("no answer")])
async def test_a_batch_that_is_not_committed_gives_back_all_that_it_took(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch, answer: Refused | Unknown
) -> None:
    run = bench.run
    run.devices("n0", gpu_slots(1))
    run.quota(DEFAULT_GROUP)
    run.quota("team", max={names.CPU: 4000})
    nodes, quotas = run.cluster.nodes, run.cluster.quotas
    before = (nodes.free[:, 0].tolist(), nodes.devices.slots["gpu"][0])
    run.pod(pod("p").requests(cpu=1000).share(50).quota("team").port(80))

    async def commit(*_: Any, **__: Any) -> Refused | Unknown:
        return answer

    monkeypatch.setattr(bench.ledger, "commit", commit)
    assert await bench.rounds.round()
    assert (nodes.free[:, 0].tolist(), nodes.devices.slots["gpu"][0]) == before
    assert not any(quotas.used(("", "team")).values())
    assert bench.placed() == {}


# --- what changes while a round is under way --------------------------------------------------------------------------


async def test_a_pod_that_is_changed_while_another_is_committed_is_tried_as_it_is_now(bench: SolverBench) -> None:
    bench.run.pods([pod("a").requests(cpu=1000), pod("b").requests(cpu=9000)])
    bench.ledger.before_commit.append(lambda: bench.run.pod(pod("b").requests(cpu=1000)))
    assert await soon(bench) == {"a", "b"}


async def test_a_pod_that_is_replaced_while_another_is_committed_is_tried(bench: SolverBench) -> None:
    bench.run.pods([pod("a").requests(cpu=1000), pod("b").requests(cpu=9000)])

    def replace() -> None:
        bench.run.delete_pod("b")
        bench.run.pod(pod("b").requests(cpu=1000).set(uid="second"))

    bench.ledger.before_commit.append(replace)
    assert await soon(bench) == {"a", "b"}


def before_the_next_message(bench: SolverBench, hook: Callable[[], object]) -> None:
    """Telling waits when the publisher's queue is full; this happens meanwhile."""
    publish, hooks = bench.commands.publish, [hook]

    async def slow(subject: str, payload: bytes, **fields: Any) -> None:
        while hooks:
            hooks.pop()()
        await publish(subject, payload, **fields)

    bench.commands.publish = slow  # type: ignore[method-assign]


async def test_a_pod_that_changes_while_a_gang_is_told_to_gather_is_tried_as_it_is_now(bench: SolverBench) -> None:
    bench.run.pods([pod("g0").requests(cpu=100).gang("g", 2), pod("p").requests(cpu=2000)])
    before_the_next_message(bench, lambda: bench.run.pod(pod("p").requests(cpu=1000)))
    assert "p" in await soon(bench)


async def test_a_pod_group_that_comes_while_its_members_are_told_to_gather_is_not_missed(bench: SolverBench) -> None:
    cluster = bench.run.cluster
    bench.rounds.tick()
    for name, ago_s in (("g1", 2.0), ("g0", 1.0)):
        cluster.now = bench.clock.time - ago_s
        bench.run.pod(pod(name).requests(cpu=100).gang("g"))
    before_the_next_message(bench, lambda: bench.run.pod_group("g", 2))
    assert await soon(bench) == {"g0", "g1"}


# --- gangs ------------------------------------------------------------------------------------------------------------


async def lowered_while_committing(bench: SolverBench) -> None:
    bench.run.pod(pod("a").requests(cpu=1000))
    bench.ledger.before_commit.append(lambda: bench.run.pod_group("g", 3))


async def lowered_after_a_refusal(bench: SolverBench) -> None:
    await bench.until_idle()
    assert bench.placed() == {}
    bench.run.pod_group("g", 3)


@pytest.mark.parametrize(("lowered", "count"), [(lowered_while_committing, 4), (lowered_after_a_refusal, 4)])
async def test_a_gang_that_needs_fewer_members_from_now_on_is_tried(
    bench: SolverBench, lowered: Any, count: int
) -> None:
    bench.run.pod_group("g", 5)
    bench.run.pods(pod(f"g{index}").requests(cpu=1000).gang("g") for index in range(5))
    await lowered(bench)
    assert len(await soon(bench)) == count


async def test_a_gang_that_needs_fewer_members_while_the_optimiser_thinks_is_tried(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    asked: list[object] = []

    class Thinking:
        is_ready = True

        trouble = ""

        async def solve(self, problem: object) -> Answer | None:
            asked.append(problem)
            run.pod_group("g", 2)
            return None

    bench = SolverBench(run, optimiser=Thinking(), optimiser_budget_s=1.0)
    run.pod_group("g", 3)
    run.pod(pod("a-first").requests(cpu=1000))
    run.pods(pod(f"m{index}").requests(cpu=1500).gang("g") for index in range(4))
    placed = await soon(bench)
    assert asked
    assert len(placed) == 3


async def test_late_members_of_a_gang_stand_each_for_itself_once_it_has_begun(bench: SolverBench) -> None:
    first = [pod(f"g{index}").requests(cpu=500).gang("g", 2) for index in range(2)]
    bench.run.pods(first)
    await bench.until_idle()
    bench.run.pod(pod("h0").requests(cpu=9000).gang("g", 2))
    bench.run.pods(pod(f"h{index}").requests(cpu=500).gang("g", 2) for index in range(1, 6))
    await bench.until_idle()
    assert set(bench.placed()) == {"g0", "g1"}
    for each in first:
        bench.run.bind(each)
    await bench.rounds.round()
    assert set(bench.placed()) == {"g0", "g1", "h1", "h2", "h3", "h4", "h5"}


async def test_a_pod_group_that_needs_no_members_completes_a_group(bench: SolverBench) -> None:
    both = '["default/a","default/b"]'
    bench.run.pods(pod(f"a{index}").requests(cpu=100).gang("a", 2, groups=both) for index in range(2))
    await bench.until_idle()
    bench.run.pod_group("b", 0, annotations={names.GANG_PREFIX + "groups": both})
    assert await soon(bench) == {"a0", "a1"}


async def test_a_gang_of_which_one_lacks_capacity_and_one_quota_is_woken_by_quota(bench: SolverBench) -> None:
    bench.run.quota(DEFAULT_GROUP)
    bench.run.quota("team", max={names.CPU: 1000})
    bench.run.pod(pod("g0").requests(cpu=9000).gang("g", 2))
    bench.run.pods(pod(f"g{index}").requests(cpu=1000).gang("g", 2).quota("team") for index in (1, 2))
    assert await soon(bench, 3.0) == set()
    bench.run.quota("team", max={names.CPU: 4000})
    assert await soon(bench) == {"g1", "g2"}


# --- Reservations -----------------------------------------------------------------------------------------------------


async def test_capacity_that_is_published_before_its_reservation_is_seen_is_used(bench: SolverBench) -> None:
    bench.run.reader.read_reserved(subjects.named_key("reservation", "r"), encode(capacity_of(OWNERS)), False)
    affinity = (names.ANNOTATION_RESERVATION_AFFINITY, '{"name":"r"}')
    bench.run.pod(pod("p").requests(cpu=1000).label("app", "a").annotation(*affinity))
    assert await soon(bench, 3.0) == set()
    bench.run.reservation(placed_kept())
    assert await soon(bench) == {"p"}


@pytest.mark.parametrize("end", ["is on its way out", "is for others"])
async def test_a_reservation_whose_capacity_is_not_known_yet_ends_and_holds_nobody_up(
    solving: type[Any], end: str
) -> None:
    run = solving()
    run.node("n0", cpu=64000)
    bench = SolverBench(run)
    run.reservation(placed_kept())
    run.pod(pod("p").requests(cpu=1000).label("app", "a"))
    await bench.until_idle()
    assert bench.placed() == {}
    others = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "z"}))]
    now = placed_kept(deleting=True) if end == "is on its way out" else placed_kept(owners=others)
    run.reservation(now)
    assert await soon(bench, 5.0) == {"p"}


async def test_a_reservation_that_is_sent_to_another_node_is_tried(bench: SolverBench) -> None:
    bench.run.reservation(kept(required_node="n9"))
    await bench.until_idle()
    bench.run.reservation(kept(required_node="n0"))
    assert await soon(bench) == {"r"}


async def test_a_reservation_that_is_corrected_is_tried(bench: SolverBench) -> None:
    bench.run.reservation(kept(problems=(Problem(field="spec.ttl", message="must not be negative"),)))
    await bench.until_idle()
    assert bench.placed() == {}
    bench.run.reservation(kept())
    assert await soon(bench) == {"r"}


async def test_a_pod_that_is_adopted_may_use_what_is_kept_for_its_controller(bench: SolverBench) -> None:
    owners = [ReservationOwner(controller=ControllerReference(kind="Job", name="j", uid="u"))]
    bench.run.reservation(placed_kept(owners=owners), capacity_of(owners))
    orphan = pod("p").requests(cpu=1000)
    bench.run.pod(orphan)
    assert await soon(bench, 3.0) == set()
    job = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)
    bench.run.pod(orphan.set(owners=[job]))
    assert await soon(bench) == {"p"}


async def test_a_late_member_that_its_gang_held_back_follows_once_the_gang_is_bound(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=2000)
    bench = SolverBench(run)
    members = [pod(f"g{index}").requests(cpu=1000).gang("g", 2) for index in range(3)]
    run.pods(members)
    await bench.until_idle()
    run.node("n1", cpu=2000)
    assert await soon(bench, 3.0) == {"g0", "g1"}, "the gang is about to begin"
    for each in members[:2]:
        run.bind(each)
    assert await soon(bench) == {"g0", "g1", "g2"}


async def test_a_batch_that_is_lost_though_it_was_acknowledged_is_not_waited_for(bench: SolverBench) -> None:
    """The ledger loses it before anybody has read it: its end is lower than the acknowledgement, for good."""
    ledger, run = bench.ledger, bench.run
    commit = ledger.commit

    async def lost(writes: Any, *, traceparent: str | None = None) -> Committed:
        ledger.commit = commit
        return Committed(run.ledger.sequence + 50)

    ledger.commit = lost
    run.pod(pod("a").requests(cpu=1000))
    bench.rounds.changed.set()
    outcome = await bench.rounds._committer.commit("p", [], {})
    bench.rounds.readiness.require(outcome.sequence)
    assert not bench.rounds.readiness.may_plan()
    assert await soon(bench) == {"a"}


async def test_only_who_would_be_charged_behind_a_newer_revision_waits(bench: SolverBench) -> None:
    run = bench.run
    known = run.quota("team", max={"cpu": 4000}).revision
    key = subjects.account_key(run.cluster.book.ledger.epoch.epoch, subjects.quota_account("", "team"))
    run.ledger.append(key, encode(AccountStamp(plan="of-another-solver", revision=known + 9)))
    run.deliver()
    run.pods([pod("theirs").requests(cpu=1000).quota("team"), pod("ours").requests(cpu=1000)])
    assert await soon(bench) == {"ours"}
    run.version += 9
    run.quota("team", max={"cpu": 4000})
    assert await soon(bench) == {"ours", "theirs"}


async def test_a_gang_that_asks_for_more_while_another_is_told_is_tried_as_it_is_now(bench: SolverBench) -> None:
    run = bench.run
    run.pod_group("g", 2)
    run.pods(pod(f"g{index}").requests(cpu=1000).gang("g") for index in range(3))
    run.pod(pod("a0").requests(cpu=100).gang("a", 2))
    publish = bench.commands.publish

    async def meanwhile(*args: Any, **more: Any) -> None:
        bench.commands.publish = publish
        run.pod_group("g", 4)
        await publish(*args, **more)

    bench.commands.publish = meanwhile
    await bench.until_idle()
    assert not bench.placed()
    assert "3 of 4 members" in bench.commands.refusals()["g0"]


async def test_nothing_is_refused_from_half_a_view(bench: SolverBench) -> None:
    run, rounds = bench.run, bench.rounds
    rounds.readiness.starts_over(buckets.STATE)
    run.cluster.reset_state()
    run.pod(pod("p").requests(cpu=1000))
    assert not await rounds.round()
    assert not bench.commands.refusals()
    run.node("n0", cpu=4000)
    run.complete()
    rounds.readiness.read_to_end(buckets.STATE)
    assert await soon(bench, 1.0) == {"p"}


def test_the_last_figures_of_a_gang_without_members_are_told_by_who_is_left(bench: SolverBench) -> None:
    cluster = bench.run.cluster
    bench.run.pod_group("g", 2)
    cluster.changed_gangs.clear()
    cluster.resharded(("s1",))
    assert cluster.changed_gangs == {"default/g"}
