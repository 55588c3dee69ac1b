"""Rounds against a ledger in memory: commit, collide, lose an answer, reject, tell, tidy."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from berth.bus.port import Committed, Refused, Stored, Unknown, Write
from berth.contracts import names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.command import RefusePod
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Epoch, Plan, PlanStatus
from berth.contracts.state import ElasticQuota, Reservation, Synced
from berth.placement_solver.handlers import Handlers
from berth.placement_solver.optimiser import Answer
from berth.placement_solver.telling import TELL_AGAIN_S
from berth.placement_solver.tidying import ABANDONED_AFTER_S
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.telemetry import recorded_spans
from berth.testing.builders import gpu_slots, pod
from berth.transaction.batch import plan_batch


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class MemoryLedger:
    """The server's side; `lose` answers: the batch is stored, the answer never comes."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.before_commit: list[Any] = []
        self.lose = 0
        self.drop = 0

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Any:
        while self.before_commit:
            self.before_commit.pop(0)()
        if self.drop:
            self.drop -= 1
            return Unknown("no answer, and nothing stored")
        accepted = self.run.ledger.commit(writes)
        self.run.deliver()
        if self.lose:
            self.lose -= 1
            return Unknown("no answer")
        return Committed(self.run.ledger.sequence) if accepted else Refused(10071, "wrong last sequence")

    async def read(self, key: str) -> Stored | None:
        for each, value, deleted, sequence in reversed(self.run.ledger.messages):
            if each == key:
                return Stored(sequence, value, deleted)
        return None


class Told:
    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []

    async def publish(self, subject: str, payload: bytes, **_: Any) -> None:
        self.messages.append((subject, payload))

    def offer(self, subject: str, payload: bytes, **_: Any) -> bool:
        self.messages.append((subject, payload))
        return True

    async def drain(self) -> None:
        pass

    def refusals(self) -> dict[str, str]:
        return {
            command.name: command.message
            for subject, payload in self.messages
            if ".cmd.refuse." in subject
            for command in [decode(payload, RefusePod)]
        }


class Rounds:
    """Handlers over a picture, without a bus."""

    def __init__(self, run: Any, **settings: Any) -> None:
        self.run = run
        self.clock = Clock()
        self.ledger = MemoryLedger(run)
        self.events, self.commands = Told(), Told()
        self.handlers = Handlers(
            run.picture,
            run.verifier,
            self.ledger,
            self.events,
            self.commands,
            self.clock,
            random.Random(7),
            batch_pods_max=100,
            tell_after_s=0.0,
            **settings,
        )

    def placed(self) -> dict[str, str]:
        return {name[1]: held.decision.node for name, held in self.run.picture.book.ledger.decisions.items()}

    async def until_idle(self, limit: int = 20) -> None:
        for _ in range(limit):
            if not await self.handlers.round():
                return


@pytest.fixture
def rounds(solving: type[Any]) -> Rounds:
    run = solving()
    run.node("n0", cpu=4000)
    return Rounds(run)


async def test_a_round_commits_and_says_so(rounds: Rounds) -> None:
    rounds.run.pods(pod(f"p{index}").requests(cpu=1000) for index in range(3))
    assert await rounds.handlers.round()
    assert set(rounds.placed()) == {"p0", "p1", "p2"}
    assert any("placement.decided" in subject for subject, _ in rounds.events.messages)
    assert not await rounds.handlers.round()


async def test_a_committed_decision_goes_on_with_the_trace_of_its_pod(rounds: Rounds) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    rounds.run.pods(pod(name).requests(cpu=1000) for name in ("seen", "untraced"))
    rounds.run.picture.queue.waiting[("default", "seen")].trace = trace
    with recorded_spans() as spans:
        await rounds.until_idle()
        (span,) = spans.get_finished_spans()
    assert f"{span.context.trace_id:032x}" in trace
    assert span.attributes["k8s.pod.name"] == "seen"
    assert rounds.run.picture.book.ledger.decisions[("default", "seen")].decision.trace == trace


async def test_a_refusal_is_told_where_people_look_and_only_once(rounds: Rounds) -> None:
    rounds.run.pod(pod("p").requests(cpu=9000))
    await rounds.until_idle()
    assert "0/1 nodes are available: 1 Insufficient cpu" in rounds.commands.refusals()["p"]
    told = len(rounds.commands.messages)
    rounds.clock.time += 200.0
    await rounds.until_idle()
    assert len(rounds.commands.messages) == told


async def test_another_reason_is_told_soon_after_the_first(rounds: Rounds) -> None:
    """Two in a row would be noise; but what a pod shows must not stay out of date."""
    rounds.run.pod(pod("p").requests(cpu=9000))
    await rounds.until_idle()
    first = rounds.commands.refusals()["p"]
    rounds.run.node("n1", cpu=5000)
    rounds.clock.time += 2.0
    await rounds.until_idle()
    rounds.clock.time += 2.0
    await rounds.until_idle()
    assert rounds.commands.refusals()["p"] == first
    rounds.clock.time += TELL_AGAIN_S
    await rounds.until_idle()
    assert "0/2 nodes are available: 2 Insufficient cpu" in rounds.commands.refusals()["p"]


async def test_a_batch_that_collides_is_solved_again_on_what_is_left(rounds: Rounds, solving: type[Any]) -> None:
    rounds.run.pod(pod("mine").requests(cpu=3000))

    def other_solver() -> None:
        other = solving()
        other.ledger = rounds.run.ledger
        other._delivered = 0
        other.picture.reset_ledger()
        other.node("n0", cpu=4000)
        other.deliver()
        other.version = 100  # newer than anything that this solver's view has seen
        other.pod(pod("theirs").requests(cpu=3000))
        other.round()

    rounds.ledger.before_commit.append(other_solver)
    await rounds.handlers.round()
    assert rounds.placed() == {"theirs": "n0"}
    await rounds.until_idle()
    assert rounds.placed() == {"theirs": "n0"}
    assert "Insufficient cpu" in rounds.commands.refusals()["mine"]
    assert rounds.run.picture.nodes.free[0, 0] == 1000


@pytest.mark.parametrize("fault", ["lose", "drop"])
async def test_an_unknown_outcome_places_a_pod_once(rounds: Rounds, fault: str) -> None:
    setattr(rounds.ledger, fault, 1)
    rounds.run.pod(pod("p").requests(cpu=3000))
    await rounds.until_idle()
    assert rounds.placed() == {"p": "n0"}
    assert rounds.run.picture.nodes.free[0, 0] == 1000
    plans = {key for key, *_ in rounds.run.ledger.messages if ".plan." in key}
    assert len(plans) == 1


async def test_one_bad_unit_costs_only_itself(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds.run.pods(pod(name).requests(cpu=1000) for name in ("a", "bad", "c"))
    check = rounds.run.verifier.check
    monkeypatch.setattr(
        rounds.run.verifier,
        "check",
        lambda claims: ["wrong"] * any(c.name[1] == "bad" for c in claims) or check(claims),
    )
    await rounds.handlers.round()
    assert set(rounds.placed()) == {"a", "c"}
    assert rounds.run.picture.nodes.free[0, 0] == 2000
    assert "rejected by the verifier: wrong" in rounds.commands.refusals()["bad"]


async def test_nothing_is_planned_before_the_views_are_complete(solving: type[Any]) -> None:
    run = solving()
    rounds = Rounds(run)
    assert rounds.handlers.may_plan()
    run.epoch(2)
    assert rounds.handlers.may_plan()
    run.version += 100
    run.epoch(3)  # demands a version that the view has not reached
    assert not rounds.handlers.may_plan()
    run.complete()
    assert rounds.handlers.may_plan()


@pytest.mark.parametrize("missing", ["pods", "reservations", "elasticquotas"])
async def test_nothing_is_planned_before_a_state_that_begins_anew_has_shown_every_kind(
    solving: type[Any], missing: str
) -> None:
    run = solving()
    rounds = Rounds(run)
    run.picture.reset_state()
    for kind in ("pods", "reservations", "elasticquotas"):
        if kind != missing:
            run.state(subjects.synced_key(kind), Synced(kind=kind, version=run.version, complete=True))
    run.picture.end_of_state()
    assert not rounds.handlers.may_plan()
    run.state(subjects.synced_key(missing), Synced(kind=missing, version=run.version, complete=True))
    run.picture.end_of_state()
    assert rounds.handlers.may_plan()


async def test_nothing_is_planned_while_quotas_are_published_anew(solving: type[Any]) -> None:
    run = solving()
    rounds = Rounds(run)
    key = subjects.namespaced_key("elasticquota", "shop", "team")
    run.state(key, ElasticQuota(namespace="shop", name="team", uid="u", version=run.version))
    assert not rounds.handlers.may_plan()
    run.quota("team", max={names.CPU: 1000})
    assert not rounds.handlers.may_plan()
    run.quota(DEFAULT_GROUP)
    assert rounds.handlers.may_plan()


async def test_settled_decisions_are_tidied_and_unsettled_ones_stay(rounds: Rounds) -> None:
    rounds.run.pods(pod(name).requests(cpu=1000) for name in ("a", "b"))
    await rounds.until_idle()
    rounds.run.delete_pod("a")
    await rounds.handlers.tidy()
    assert set(rounds.placed()) == {"b"}
    await rounds.handlers.tidy()
    assert set(rounds.placed()) == {"b"}


async def test_a_plan_that_nobody_finishes_is_given_up(rounds: Rounds) -> None:
    rounds.run.pod(pod("p").requests(cpu=1000))
    solution, trial = rounds.run.solve()
    decisions, revisions = rounds.run.decide(solution)
    trial.undo()
    plan = Plan(id=decisions[0].plan, status=PlanStatus.OPEN, decisions=1)
    assert rounds.run.commit(plan_batch(rounds.run.picture.book.ledger, plan, decisions, revisions))
    await rounds.handlers.tidy()
    rounds.clock.time += ABANDONED_AFTER_S + 1
    await rounds.handlers.tidy()
    assert rounds.run.picture.book.ledger.plan_status(plan.id) is PlanStatus.ABORTED
    assert rounds.run.picture.nodes.free[0, 0] == 4000
    await rounds.until_idle()
    assert rounds.placed() == {"p": "n0"}


class SlowOptimiser:
    """While it thinks, something happens."""

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile
        self.is_ready = True
        self.asked = 0

    async def solve(self, problem: Any) -> Answer | None:
        self.asked += 1
        self.meanwhile()
        return None


@pytest.mark.parametrize("change", ["another group pays", "QUOTA begins anew"])
async def test_who_pays_is_asked_again_when_the_optimiser_has_thought(solving: Any, change: str) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    run.quota(DEFAULT_GROUP)
    key = subjects.namespaced_key("elasticquota", "default", "team")
    run.state(key, ElasticQuota(namespace="default", name="team", uid="u", version=run.version))

    def meanwhile() -> None:
        if change == "QUOTA begins anew":
            run.picture.reset_quota()
        else:
            run.quota("team", max={names.CPU: 50}, namespaces=["default"])

    optimiser = SlowOptimiser(meanwhile)
    rounds = Rounds(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pods(pod(name).share(60).requests(cpu=100) for name in ("a", "b"))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    await rounds.handlers.round()
    assert optimiser.asked == 1
    assert rounds.placed() == {}
    assert rounds.commands.refusals() == {}
    optimiser.meanwhile = lambda: None
    run.quota(DEFAULT_GROUP)
    run.quota("team", max={names.CPU: 50}, namespaces=["default"])
    await rounds.until_idle()
    assert rounds.placed() == {}
    told = rounds.commands.refusals()
    assert told
    assert all("quota team" in message for message in told.values())


async def test_an_owner_waits_for_room_that_came_up_while_the_optimiser_thought(solving: Any) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    owners = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]
    kept = Reservation(name="r", uid="r", version=0, owners=owners, phase="Available", node="n0")
    optimiser = SlowOptimiser(lambda: run.reservation(kept))
    rounds = Rounds(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pods([pod("a-owner").share(60).requests(cpu=100).label("app", "a"), pod("b-other").share(60).requests(cpu=100)])
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    await rounds.handlers.round()
    assert optimiser.asked == 1
    assert set(rounds.placed()) == {"b-other"}
    await rounds.handlers.round()
    assert run.picture.queue.waiting["default", "a-owner"].held


@pytest.mark.parametrize("change", ["delete", "touch"])
async def test_what_changes_while_the_optimiser_thinks_is_not_placed_as_it_was(solving: Any, change: str) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    gang = [pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4)]

    def meanwhile() -> None:
        if change == "delete":
            run.delete_pod("single")
        else:
            run.pod(pod("single").share(60).requests(cpu=101).template(priority=5))

    optimiser = SlowOptimiser(meanwhile)
    rounds = Rounds(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pod(pod("single").share(60).requests(cpu=100).template(priority=5))
    run.pods(gang)
    await rounds.handlers.round()
    assert optimiser.asked == 1
    optimiser.meanwhile = lambda: None
    await rounds.until_idle()
    assert not any("internal" in message for message in rounds.commands.refusals().values())
    assert set(rounds.placed()) == {"g0", "g1", "g2", "g3"}
    for index in range(4):
        run.delete_pod(f"g{index}")
    rounds.clock.time += 100.0
    await rounds.until_idle()
    decided = {name[1]: held.decision for name, held in run.picture.book.ledger.decisions.items()}
    if change == "delete":
        assert "single" not in decided
    else:
        assert decided["single"].allocation.amounts[names.CPU] == 101


async def test_a_plan_committed_into_an_epoch_that_is_over_is_made_again(rounds: Rounds) -> None:
    run = rounds.run
    run.pod(pod("p").requests(cpu=3000))
    rounds.ledger.before_commit.append(lambda: run.ledger.append("epoch", encode(Epoch(epoch=2))))
    await rounds.handlers.round()
    assert rounds.placed() == {}, "the view is in the new epoch, the plan in the old one"
    rounds.clock.time += 1.0
    await rounds.until_idle()
    assert rounds.placed() == {"p": "n0"}
    assert run.picture.nodes.free[0, 0] == 1000
