"""Whoever waits is tried again once what it waits for is there: after a pause, not only at the flush every minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.services.worlds.solver.rounds import Rounds

from berth.bus.port import Committed, Refused, Unknown
from berth.contracts import buckets, names, subjects
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.kube import ControllerReference, LabelSelector, OwnerReference, ReservationOwner
from berth.contracts.ledger import AccountStamp, Epoch
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.queue import BACKOFF_MAX_S, FLUSH_S
from berth.placement_solver.optimiser import Answer
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.testing.builders import gpu_slots, pod

SOON_S = 15.0
assert BACKOFF_MAX_S < SOON_S < FLUSH_S

OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]
AMOUNTS = {names.CPU: 4000}


@pytest.fixture
def rounds(solving: type[Any]) -> Rounds:
    run = solving()
    run.node("n0", cpu=4000)
    return Rounds(run)


async def soon(rounds: Rounds, seconds: float = SOON_S) -> set[str]:
    """Who is placed after so long."""
    until = rounds.clock.time + seconds
    while rounds.clock.time < until:
        rounds.clock.time += 0.5
        await rounds.until_idle()
    return set(rounds.placed())


def kept(**fields: Any) -> Reservation:
    fields = {"template": PodTemplate(requests=AMOUNTS), "owners": OWNERS, **fields}
    return Reservation(name="r", uid="r", version=0, **fields)


def placed_kept(**fields: Any) -> Reservation:
    return kept(phase="Available", node="n0", allocatable=AMOUNTS, **fields)


def capacity_of(owners: list[ReservationOwner]) -> ReservedCapacity:
    fields: dict[str, Any] = {"name": "r", "uid": "r", "revision": 1, "phase": "Available", "node": "n0"}
    return ReservedCapacity(**fields, amounts=AMOUNTS, owners=owners, usable=True)


# --- room that a plan gives back --------------------------------------------------------------------------------------


async def test_a_pod_that_is_deleted_while_its_plan_is_committed_leaves_its_room(rounds: Rounds) -> None:
    rounds.run.pods(pod(name).requests(cpu=4000) for name in "ab")
    rounds.ledger.before_commit.append(lambda: rounds.run.delete_pod("a"))
    await rounds.until_idle()
    assert rounds.run.cluster.nodes.free[0, 0] == 4000
    assert "b" in await soon(rounds)


async def test_a_plan_of_an_epoch_that_is_over_leaves_its_room(rounds: Rounds) -> None:
    rounds.run.pods(pod(name).requests(cpu=4000) for name in "ab")
    rounds.ledger.before_commit.append(lambda: rounds.run.ledger.append("epoch", encode(Epoch(epoch=2))))
    await rounds.handlers.round()
    assert rounds.placed() == {}
    rounds.run.delete_pod("a")
    assert "b" in await soon(rounds)


@pytest.mark.parametrize("answer", [Refused(10071, "wrong last sequence"), Unknown("no answer")])
async def test_a_batch_that_is_not_committed_gives_back_all_that_it_took(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch, answer: Refused | Unknown
) -> None:
    run = rounds.run
    run.devices("n0", gpu_slots(1))
    run.quota(DEFAULT_GROUP)
    run.quota("team", max={names.CPU: 4000})
    nodes, quotas = run.cluster.nodes, run.cluster.quotas
    before = (nodes.free[:, 0].tolist(), nodes.slots[0])
    run.pod(pod("p").requests(cpu=1000).share(50).quota("team").port(80))

    async def commit(*_: Any, **__: Any) -> Refused | Unknown:
        return answer

    monkeypatch.setattr(rounds.ledger, "commit", commit)
    assert await rounds.handlers.round()
    assert (nodes.free[:, 0].tolist(), nodes.slots[0]) == before
    assert not any(quotas.used(("", "team")).values())
    assert rounds.placed() == {}


# --- what changes while a round is under way --------------------------------------------------------------------------


async def test_a_pod_that_is_changed_while_another_is_committed_is_tried_as_it_is_now(rounds: Rounds) -> None:
    rounds.run.pods([pod("a").requests(cpu=1000), pod("b").requests(cpu=9000)])
    rounds.ledger.before_commit.append(lambda: rounds.run.pod(pod("b").requests(cpu=1000)))
    assert await soon(rounds) == {"a", "b"}


async def test_a_pod_that_is_replaced_while_another_is_committed_is_tried(rounds: Rounds) -> None:
    rounds.run.pods([pod("a").requests(cpu=1000), pod("b").requests(cpu=9000)])

    def replace() -> None:
        rounds.run.delete_pod("b")
        rounds.run.pod(pod("b").requests(cpu=1000).set(uid="second"))

    rounds.ledger.before_commit.append(replace)
    assert await soon(rounds) == {"a", "b"}


def before_the_next_message(rounds: Rounds, hook: Callable[[], object]) -> None:
    """Telling waits when the publisher's queue is full; this happens meanwhile."""
    publish, hooks = rounds.commands.publish, [hook]

    async def slow(subject: str, payload: bytes, **fields: Any) -> None:
        while hooks:
            hooks.pop()()
        await publish(subject, payload, **fields)

    rounds.commands.publish = slow  # type: ignore[method-assign]


async def test_a_pod_that_changes_while_a_gang_is_told_to_gather_is_tried_as_it_is_now(rounds: Rounds) -> None:
    rounds.run.pods([pod("g0").requests(cpu=100).gang("g", 2), pod("p").requests(cpu=2000)])
    before_the_next_message(rounds, lambda: rounds.run.pod(pod("p").requests(cpu=1000)))
    assert "p" in await soon(rounds)


async def test_a_pod_group_that_comes_while_its_members_are_told_to_gather_is_not_missed(rounds: Rounds) -> None:
    cluster = rounds.run.cluster
    rounds.handlers.tick()
    for name, ago_s in (("g1", 2.0), ("g0", 1.0)):
        cluster.now = rounds.clock.time - ago_s
        rounds.run.pod(pod(name).requests(cpu=100).gang("g"))
    before_the_next_message(rounds, lambda: rounds.run.pod_group("g", 2))
    assert await soon(rounds) == {"g0", "g1"}


# --- gangs ------------------------------------------------------------------------------------------------------------


async def lowered_while_committing(rounds: Rounds) -> None:
    rounds.run.pod(pod("a").requests(cpu=1000))
    rounds.ledger.before_commit.append(lambda: rounds.run.pod_group("g", 3))


async def lowered_after_a_refusal(rounds: Rounds) -> None:
    await rounds.until_idle()
    assert rounds.placed() == {}
    rounds.run.pod_group("g", 3)


@pytest.mark.parametrize(("lowered", "count"), [(lowered_while_committing, 4), (lowered_after_a_refusal, 4)])
async def test_a_gang_that_needs_fewer_members_from_now_on_is_tried(rounds: Rounds, lowered: Any, count: int) -> None:
    rounds.run.pod_group("g", 5)
    rounds.run.pods(pod(f"g{index}").requests(cpu=1000).gang("g") for index in range(5))
    await lowered(rounds)
    assert len(await soon(rounds)) == count


async def test_a_gang_that_needs_fewer_members_while_the_optimiser_thinks_is_tried(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    asked: list[object] = []

    class Thinking:
        is_ready = True

        async def solve(self, problem: object) -> Answer | None:
            asked.append(problem)
            run.pod_group("g", 2)
            return None

    rounds = Rounds(run, optimiser=Thinking(), optimiser_budget_s=1.0)
    run.pod_group("g", 3)
    run.pod(pod("a-first").requests(cpu=1000))
    run.pods(pod(f"m{index}").requests(cpu=1500).gang("g") for index in range(4))
    placed = await soon(rounds)
    assert asked
    assert len(placed) == 3


async def test_late_members_of_a_gang_stand_each_for_itself_once_it_has_begun(rounds: Rounds) -> None:
    first = [pod(f"g{index}").requests(cpu=500).gang("g", 2) for index in range(2)]
    rounds.run.pods(first)
    await rounds.until_idle()
    rounds.run.pod(pod("h0").requests(cpu=9000).gang("g", 2))
    rounds.run.pods(pod(f"h{index}").requests(cpu=500).gang("g", 2) for index in range(1, 6))
    await rounds.until_idle()
    assert set(rounds.placed()) == {"g0", "g1"}
    for each in first:
        rounds.run.bind(each)
    await rounds.handlers.round()
    assert set(rounds.placed()) == {"g0", "g1", "h1", "h2", "h3", "h4", "h5"}


async def test_a_pod_group_that_needs_no_members_completes_a_group(rounds: Rounds) -> None:
    both = '["default/a","default/b"]'
    rounds.run.pods(pod(f"a{index}").requests(cpu=100).gang("a", 2, groups=both) for index in range(2))
    await rounds.until_idle()
    rounds.run.pod_group("b", 0, annotations={names.GANG_PREFIX + "groups": both})
    assert await soon(rounds) == {"a0", "a1"}


async def test_a_gang_of_which_one_lacks_room_and_one_quota_is_woken_by_quota(rounds: Rounds) -> None:
    rounds.run.quota(DEFAULT_GROUP)
    rounds.run.quota("team", max={names.CPU: 1000})
    rounds.run.pod(pod("g0").requests(cpu=9000).gang("g", 2))
    rounds.run.pods(pod(f"g{index}").requests(cpu=1000).gang("g", 2).quota("team") for index in (1, 2))
    assert await soon(rounds, 3.0) == set()
    rounds.run.quota("team", max={names.CPU: 4000})
    assert await soon(rounds) == {"g1", "g2"}


# --- Reservations -----------------------------------------------------------------------------------------------------


async def test_room_that_is_published_before_its_reservation_is_seen_is_used(rounds: Rounds) -> None:
    rounds.run.reader.read_reserved(subjects.named_key("reservation", "r"), encode(capacity_of(OWNERS)), False)
    affinity = (names.ANNOTATION_RESERVATION_AFFINITY, '{"name":"r"}')
    rounds.run.pod(pod("p").requests(cpu=1000).label("app", "a").annotation(*affinity))
    assert await soon(rounds, 3.0) == set()
    rounds.run.reservation(placed_kept())
    assert await soon(rounds) == {"p"}


@pytest.mark.parametrize("end", ["is on its way out", "is for others"])
async def test_a_reservation_whose_room_is_not_known_yet_ends_and_holds_nobody_up(solving: type[Any], end: str) -> None:
    run = solving()
    run.node("n0", cpu=64000)
    rounds = Rounds(run)
    run.reservation(placed_kept())
    run.pod(pod("p").requests(cpu=1000).label("app", "a"))
    await rounds.until_idle()
    assert rounds.placed() == {}
    others = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "z"}))]
    now = placed_kept(deleting=True) if end == "is on its way out" else placed_kept(owners=others)
    run.reservation(now)
    assert await soon(rounds, 5.0) == {"p"}


async def test_a_reservation_that_is_sent_to_another_node_is_tried(rounds: Rounds) -> None:
    rounds.run.reservation(kept(required_node="n9"))
    await rounds.until_idle()
    rounds.run.reservation(kept(required_node="n0"))
    assert await soon(rounds) == {"r"}


async def test_a_reservation_that_is_corrected_is_tried(rounds: Rounds) -> None:
    rounds.run.reservation(kept(problems=(Problem(field="spec.ttl", message="must not be negative"),)))
    await rounds.until_idle()
    assert rounds.placed() == {}
    rounds.run.reservation(kept())
    assert await soon(rounds) == {"r"}


async def test_a_pod_that_is_adopted_may_use_what_is_kept_for_its_controller(rounds: Rounds) -> None:
    owners = [ReservationOwner(controller=ControllerReference(kind="Job", name="j", uid="u"))]
    rounds.run.reservation(placed_kept(owners=owners), capacity_of(owners))
    orphan = pod("p").requests(cpu=1000)
    rounds.run.pod(orphan)
    assert await soon(rounds, 3.0) == set()
    job = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)
    rounds.run.pod(orphan.set(owners=[job]))
    assert await soon(rounds) == {"p"}


async def test_a_late_member_that_its_gang_held_back_follows_once_the_gang_is_bound(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=2000)
    rounds = Rounds(run)
    members = [pod(f"g{index}").requests(cpu=1000).gang("g", 2) for index in range(3)]
    run.pods(members)
    await rounds.until_idle()
    run.node("n1", cpu=2000)
    assert await soon(rounds, 3.0) == {"g0", "g1"}, "the gang is about to begin"
    for each in members[:2]:
        run.bind(each)
    assert await soon(rounds) == {"g0", "g1", "g2"}


async def test_a_batch_that_is_lost_though_it_was_acknowledged_is_not_waited_for(rounds: Rounds) -> None:
    """The ledger loses it before anybody has read it: its end is lower than the acknowledgement, for good."""
    ledger, run = rounds.ledger, rounds.run
    commit = ledger.commit

    async def lost(writes: Any, *, traceparent: str | None = None) -> Committed:
        ledger.commit = commit
        return Committed(run.ledger.sequence + 50)

    ledger.commit = lost
    run.pod(pod("a").requests(cpu=1000))
    rounds.handlers.changed.set()
    outcome = await rounds.handlers._committer.commit("p", [], {})
    rounds.handlers._require(outcome.sequence)
    assert not rounds.handlers.may_plan()
    assert await soon(rounds) == {"a"}


async def test_only_who_would_be_charged_behind_a_newer_revision_waits(rounds: Rounds) -> None:
    run = rounds.run
    known = run.quota("team", max={"cpu": 4000}).revision
    key = subjects.account_key(run.cluster.book.ledger.epoch.epoch, subjects.quota_account("", "team"))
    run.ledger.append(key, encode(AccountStamp(plan="of-another-solver", revision=known + 9)))
    run.deliver()
    run.pods([pod("theirs").requests(cpu=1000).quota("team"), pod("ours").requests(cpu=1000)])
    assert await soon(rounds) == {"ours"}
    run.version += 9
    run.quota("team", max={"cpu": 4000})
    assert await soon(rounds) == {"ours", "theirs"}


async def test_a_gang_that_asks_for_more_while_another_is_told_is_tried_as_it_is_now(rounds: Rounds) -> None:
    run = rounds.run
    run.pod_group("g", 2)
    run.pods(pod(f"g{index}").requests(cpu=1000).gang("g") for index in range(3))
    run.pod(pod("a0").requests(cpu=100).gang("a", 2))
    publish = rounds.commands.publish

    async def meanwhile(*args: Any, **more: Any) -> None:
        rounds.commands.publish = publish
        run.pod_group("g", 4)
        await publish(*args, **more)

    rounds.commands.publish = meanwhile
    await rounds.until_idle()
    assert not rounds.placed()
    assert "3 of 4 members" in rounds.commands.refusals()["g0"]


async def test_nothing_is_refused_from_half_a_view(rounds: Rounds) -> None:
    run, handlers = rounds.run, rounds.handlers
    handlers.starts_over(buckets.STATE)
    run.cluster.reset_state()
    run.pod(pod("p").requests(cpu=1000))
    assert not await handlers.round()
    assert not rounds.commands.refusals()
    run.node("n0", cpu=4000)
    run.complete()
    handlers.read_to_end(buckets.STATE)
    assert await soon(rounds, 1.0) == {"p"}


def test_the_last_figures_of_a_gang_without_members_are_told_by_who_is_left(rounds: Rounds) -> None:
    cluster = rounds.run.cluster
    rounds.run.pod_group("g", 2)
    cluster.changed_gangs.clear()
    cluster.resharded(("s1",))
    assert cluster.changed_gangs == {"default/g"}
