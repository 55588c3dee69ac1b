"""SolverBench against a ledger in memory: commit, collide, lose an answer, reject, tell, tidy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.bus.port import Refused
from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.kube import Taint
from berth.contracts.ledger import Epoch, Plan, PlanStatus
from berth.contracts.state import ElasticQuota, Synced
from berth.placement_solver.event_publisher import REPORT_AGAIN_S
from berth.placement_solver.tidying import ABANDONED_AFTER_S
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.telemetry import recorded_spans
from berth.testing.builders import pod
from berth.transaction.batch import plan_batch


@pytest.fixture
def bench(solving: type[Any]) -> SolverBench:
    run = solving()
    run.node("n0", cpu=4000)
    return SolverBench(run)


async def test_a_round_commits_and_says_so(bench: SolverBench) -> None:
    bench.run.pods(pod(f"p{index}").requests(cpu=1000) for index in range(3))
    assert await bench.rounds.round()
    assert set(bench.placed()) == {"p0", "p1", "p2"}
    assert any("placement.decided" in subject for subject, _ in bench.events.messages)
    assert not await bench.rounds.round()


async def test_a_committed_decision_goes_on_with_the_trace_of_its_pod(bench: SolverBench) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bench.run.pods(pod(name).requests(cpu=1000) for name in ("seen", "untraced"))
    bench.run.cluster.queue.waiting[("default", "seen")].trace = trace
    with recorded_spans() as spans:
        await bench.until_idle()
        (span,) = spans.get_finished_spans()
    assert f"{span.context.trace_id:032x}" in trace
    assert span.attributes["k8s.pod.name"] == "seen"
    assert bench.run.cluster.book.ledger.decisions[("default", "seen")].decision.trace == trace


async def test_a_refusal_is_told_where_people_look_and_only_once(bench: SolverBench) -> None:
    bench.run.pod(pod("p").requests(cpu=9000))
    await bench.until_idle()
    assert "0/1 nodes are available: 1 Insufficient cpu" in bench.commands.refusals()["p"]
    told = len(bench.commands.messages)
    bench.clock.time += 200.0
    await bench.until_idle()
    assert len(bench.commands.messages) == told


async def test_another_reason_is_told_soon_after_the_first(bench: SolverBench) -> None:
    """Two in a row would be noise; but what a pod shows must not stay out of date."""
    bench.run.pod(pod("p").requests(cpu=9000))
    await bench.until_idle()
    first = bench.commands.refusals()["p"]
    bench.run.node("n1", cpu=9000, taints=[Taint(key="k", effect="NoSchedule")])
    bench.clock.time += 2.0
    await bench.until_idle()
    bench.clock.time += 2.0
    await bench.until_idle()
    assert bench.commands.refusals()["p"] == first
    bench.clock.time += REPORT_AGAIN_S
    await bench.until_idle()
    said = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint"
    assert said in bench.commands.refusals()["p"]


async def test_a_batch_that_collides_is_solved_again_on_what_is_left(bench: SolverBench, solving: type[Any]) -> None:
    bench.run.pod(pod("mine").requests(cpu=3000))

    def other_solver() -> None:
        other = solving()
        other.ledger = bench.run.ledger
        other._delivered = 0
        other.cluster.reset_ledger()
        other.node("n0", cpu=4000)
        other.deliver()
        other.version = 100  # newer than anything that this solver's view has seen
        other.pod(pod("theirs").requests(cpu=3000))
        other.round()

    bench.ledger.before_commit.append(other_solver)
    await bench.rounds.round()
    assert bench.placed() == {"theirs": "n0"}
    await bench.until_idle()
    assert bench.placed() == {"theirs": "n0"}
    assert "Insufficient cpu" in bench.commands.refusals()["mine"]
    assert bench.run.cluster.nodes.free[0, 0] == 1000


@pytest.mark.parametrize("fault", ["lose", "drop"])
async def test_an_unknown_outcome_places_a_pod_once(bench: SolverBench, fault: str) -> None:
    setattr(bench.ledger, fault, 1)
    bench.run.pod(pod("p").requests(cpu=3000))
    await bench.until_idle()
    assert bench.placed() == {"p": "n0"}
    assert bench.run.cluster.nodes.free[0, 0] == 1000
    plans = {key for key, *_ in bench.run.ledger.messages if ".plan." in key}
    assert len(plans) == 1


async def test_one_bad_unit_costs_only_itself(bench: SolverBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run.pods(pod(name).requests(cpu=1000) for name in ("a", "bad", "c"))
    check = bench.run.verifier.check
    monkeypatch.setattr(
        bench.run.verifier,
        "check",
        lambda claims: ["wrong"] * any(c.name[1] == "bad" for c in claims) or check(claims),
    )
    await bench.rounds.round()
    assert set(bench.placed()) == {"a", "c"}
    assert bench.run.cluster.nodes.free[0, 0] == 2000
    await bench.rounds.explain()
    assert "rejected by the verifier: wrong" in bench.commands.refusals()["bad"]


async def test_nothing_is_planned_before_the_views_are_complete(solving: type[Any]) -> None:
    run = solving()
    bench = SolverBench(run)
    assert bench.rounds.readiness.may_plan()
    run.epoch(2)
    assert bench.rounds.readiness.may_plan()
    run.version += 100
    run.epoch(3)  # demands a version that the view has not reached
    assert not bench.rounds.readiness.may_plan()
    run.complete()
    assert bench.rounds.readiness.may_plan()


@pytest.mark.parametrize("missing", ["pods", "reservations", "elasticquotas"])
async def test_nothing_is_planned_before_a_state_that_begins_anew_has_shown_every_kind(
    solving: type[Any], missing: str
) -> None:
    run = solving()
    bench = SolverBench(run)
    run.cluster.reset_state()
    for kind in ("pods", "reservations", "elasticquotas"):
        if kind != missing:
            run.state(subjects.synced_key(kind), Synced(kind=kind, version=run.version, complete=True))
    run.cluster.end_of_state()
    assert not bench.rounds.readiness.may_plan()
    run.state(subjects.synced_key(missing), Synced(kind=missing, version=run.version, complete=True))
    run.cluster.end_of_state()
    assert bench.rounds.readiness.may_plan()


async def test_nothing_is_planned_while_quotas_are_published_anew(solving: type[Any]) -> None:
    run = solving()
    bench = SolverBench(run)
    key = subjects.namespaced_key("elasticquota", "shop", "team")
    run.state(key, ElasticQuota(namespace="shop", name="team", uid="u", version=run.version))
    assert not bench.rounds.readiness.may_plan()
    run.quota("team", max={names.CPU: 1000})
    assert not bench.rounds.readiness.may_plan()
    run.quota(DEFAULT_GROUP)
    assert bench.rounds.readiness.may_plan()


async def test_settled_decisions_are_tidied_and_unsettled_ones_stay(bench: SolverBench) -> None:
    bench.run.pods(pod(name).requests(cpu=1000) for name in ("a", "b"))
    await bench.until_idle()
    bench.run.delete_pod("a")
    await bench.rounds.tidy()
    assert set(bench.placed()) == {"b"}
    await bench.rounds.tidy()
    assert set(bench.placed()) == {"b"}


async def test_a_plan_that_nobody_finishes_is_given_up(bench: SolverBench) -> None:
    bench.run.pod(pod("p").requests(cpu=1000))
    solution, trial = bench.run.solve()
    decisions, revisions = bench.run.decide(solution)
    trial.undo()
    plan = Plan(id=decisions[0].plan, status=PlanStatus.OPEN, decisions=1)
    assert bench.run.commit(plan_batch(bench.run.cluster.book.ledger, plan, decisions, revisions))
    await bench.rounds.tidy()
    bench.clock.time += ABANDONED_AFTER_S + 1
    await bench.rounds.tidy()
    assert bench.run.cluster.book.ledger.plan_status(plan.id) is PlanStatus.ABORTED
    assert bench.run.cluster.nodes.free[0, 0] == 4000
    await bench.until_idle()
    assert bench.placed() == {"p": "n0"}


async def test_a_plan_committed_into_an_epoch_that_is_over_is_made_again(bench: SolverBench) -> None:
    run = bench.run
    run.pod(pod("p").requests(cpu=3000))
    bench.ledger.before_commit.append(lambda: run.ledger.append("epoch", encode(Epoch(epoch=2))))
    await bench.rounds.round()
    assert bench.placed() == {}, "the view is in the new epoch, the plan in the old one"
    bench.clock.time += 1.0
    await bench.until_idle()
    assert bench.placed() == {"p": "n0"}
    assert run.cluster.nodes.free[0, 0] == 1000


async def test_what_a_lost_ledger_said_is_not_waited_for(bench: SolverBench) -> None:
    """A plan that goes on into an outage may end with a sequence that the ledger behind it will not reach for long."""
    run, rounds = bench.run, bench.rounds
    commit = rounds._committer.commit

    async def late(*args, **keywords):
        outcome = await commit(*args, **keywords)
        run.cluster.ledger_starts += 1
        assert rounds.readiness.may_plan(), "tidying asks meanwhile"
        return outcome._replace(status="refused", sequence=5000)

    rounds._committer.commit = late
    run.pod(pod("a").requests(cpu=1000))
    await rounds.round()
    assert rounds.readiness.may_plan()


async def test_a_pod_whose_plan_was_rejected_is_not_tried_with_others_again(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = bench.run, []
    check = run.verifier.check

    def wrong(claims: Any) -> list[str]:
        asked.append({claim.name[1] for claim in claims})
        return ["wrong"] if any(claim.name[1] == "bad" for claim in claims) else check(claims)

    monkeypatch.setattr(run.verifier, "check", wrong)
    run.pods(pod(name).requests(cpu=500) for name in ("bad", "a"))
    await bench.rounds.round()
    assert set(bench.placed()) == {"a"}
    asked.clear()
    run.pods(pod(name).requests(cpu=500) for name in ("b", "c"))
    bench.run.cluster.queue.make_ready(bench.run.cluster.queue.waiting["default", "bad"])
    await bench.rounds.round()
    assert set(bench.placed()) == {"a", "b", "c"}
    assert asked[0] == {"b", "c"}, "it costs nobody else a second plan"
    assert not any("bad" in names and len(names) == 1 + len({"b", "c"} & names) > 3 for names in asked)


async def test_nothing_is_planned_on_a_ledger_with_an_entry_that_cannot_be_read(bench: SolverBench) -> None:
    """Nobody knows what it holds; the writer raises the epoch, in which what holds capacity is known again."""
    bench.run.pod(pod("p").requests(cpu=3000))
    await bench.until_idle()
    key = subjects.decision_key(1, "default", "p")
    with pytest.raises(InvalidMessage):
        bench.run.cluster.read_ledger(key, b"{", False, bench.run.ledger.sequence + 1)
    bench.run.pod(pod("q").requests(cpu=3000))
    bench.run.pod(pod("p").requests(cpu=3000))  # refreshed, as a new version of it does
    assert not await bench.rounds.round()
    bench.run.epoch(2)
    assert await bench.rounds.round(), "in a new epoch all is known again"


async def test_a_full_ledger_is_waited_for_longer_each_time_and_then_all_goes_on(bench: SolverBench) -> None:
    bench.run.pod(pod("p").requests(cpu=1000))
    refuse, bench.ledger.commit = bench.ledger.commit, full  # type: ignore[method-assign]
    paused = []
    for _ in range(12):
        before = bench.clock.time
        assert await bench.rounds.round()
        paused.append(bench.clock.time - before)
    assert bench.rounds.back_off.is_full
    assert not bench.placed()
    assert paused[0] <= 0.5
    assert 2.5 <= min(paused[6:]) <= max(paused) <= 5.1
    bench.ledger.commit = refuse  # type: ignore[method-assign]
    await bench.until_idle()
    assert set(bench.placed()) == {"p"}
    assert not bench.rounds.back_off.is_full


async def full(writes: Any, *, traceparent: str | None = None) -> Refused:
    return Refused(10077, "maximum bytes exceeded")
