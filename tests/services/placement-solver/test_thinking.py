"""SolverBench in which something happens while the optimiser thinks: what it planned on is judged again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.state import ElasticQuota, Reservation
from berth.placement_solver import consulting
from berth.placement_solver.core.plan import Solution
from berth.placement_solver.optimiser import Answer
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.telemetry import captured_logs
from berth.testing.builders import gpu_slots, pod


class SlowOptimiser:
    """While it thinks, something happens."""

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile
        self.is_ready = True
        self.trouble = ""
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
            run.cluster.reset_quota()
        else:
            run.quota("team", max={names.CPU: 50}, namespaces=["default"])

    optimiser = SlowOptimiser(meanwhile)
    bench = SolverBench(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pods(pod(name).share(60).requests(cpu=100) for name in ("a", "b"))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    await bench.thought()
    assert optimiser.asked == 1
    assert bench.placed() == {}
    assert bench.commands.refusals() == {}
    optimiser.meanwhile = lambda: None
    run.quota(DEFAULT_GROUP)
    run.quota("team", max={names.CPU: 50}, namespaces=["default"])
    await bench.until_idle()
    assert bench.placed() == {}
    told = bench.commands.refusals()
    assert told
    assert all("quota team" in message for message in told.values())


async def test_an_owner_waits_for_capacity_that_came_up_while_the_optimiser_thought(solving: Any) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    owners = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]
    kept = Reservation(name="r", uid="r", version=0, owners=owners, phase="Available", node="n0")
    optimiser = SlowOptimiser(lambda: run.reservation(kept))
    bench = SolverBench(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pods([pod("a-owner").share(60).requests(cpu=100).label("app", "a"), pod("b-other").share(60).requests(cpu=100)])
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    await bench.thought()
    assert optimiser.asked == 1
    assert set(bench.placed()) == {"b-other"}
    await bench.rounds.round()
    assert run.cluster.queue.waiting["default", "a-owner"].held


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
    bench = SolverBench(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pod(pod("single").share(60).requests(cpu=100).template(priority=5))
    run.pods(gang)
    await bench.thought()
    assert optimiser.asked == 1
    optimiser.meanwhile = lambda: None
    await bench.until_idle()
    assert not any("internal" in message for message in bench.commands.refusals().values())
    assert set(bench.placed()) == {"g0", "g1", "g2", "g3"}
    for index in range(4):
        run.delete_pod(f"g{index}")
    bench.clock.time += 100.0
    await bench.until_idle()
    decided = {name[1]: held.decision for name, held in run.cluster.book.ledger.decisions.items()}
    if change == "delete":
        assert "single" not in decided
    else:
        assert decided["single"].allocation.amounts[names.CPU] == 101


async def test_a_plan_of_the_optimiser_that_the_verifier_rejects_is_counted_and_logged(
    solving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    optimiser = SlowOptimiser(lambda: None)
    bench = SolverBench(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pods(pod(name).share(60).requests(cpu=100) for name in ("a", "b"))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))

    async def better(problem: Any) -> Answer:
        return Answer([[0]])

    check, lines = run.verifier.check, []
    monkeypatch.setattr(optimiser, "solve", better)
    monkeypatch.setattr(consulting, "wanted_of", lambda *_: {})
    monkeypatch.setattr(
        consulting, "joint_solution", lambda wanted, units, greedy, *_: Solution(greedy.placements * 9, ())
    )
    monkeypatch.setattr(consulting, "worth", len)
    monkeypatch.setattr(run.verifier, "check", lambda claims: ["wrong"] if len(claims) > 6 else check(claims))
    with captured_logs(lines.append, "warning"):
        await bench.thought()
    assert ["the optimiser" in line.message for line in lines] == [True]
    assert bench.placed(), "the plan at hand is taken"


async def test_others_are_placed_while_the_optimiser_thinks(solving: Any) -> None:
    """What it thinks about keeps the capacity of the plan at hand meanwhile."""
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    may_answer = asyncio.Event()

    class Patient(SlowOptimiser):
        async def solve(self, problem: Any) -> Answer | None:
            await may_answer.wait()
            return None

    bench = SolverBench(run, optimiser=Patient(lambda: None), optimiser_budget_s=1.0)
    run.pods(pod(name).share(60).requests(cpu=100) for name in ("a", "b"))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    async with asyncio.timeout(5):
        await bench.rounds.round()
    run.pod(pod("plain").requests(cpu=100))
    run.pods(pod(f"c{index}").share(60).requests(cpu=100) for index in range(3))
    async with asyncio.timeout(5):
        await bench.until_idle()
    assert set(bench.placed()) == {"plain", "c0", "c1"}, "two cards are kept for a and b"
    may_answer.set()
    await asyncio.sleep(0.01)
    await bench.until_idle()
    assert set(bench.placed()) == {"plain", "c0", "c1", "a", "b"}


async def test_a_pod_that_came_while_the_optimiser_thought_keeps_others_away(solving: Any) -> None:
    run = solving()
    run.node("n0", cpu=4000, labels={"zone": "a"})
    run.devices("n0", gpu_slots(4))
    guard = pod("guard").apart("zone", {"app": "noisy"}).on("n0")
    optimiser = SlowOptimiser(lambda: run.pod(guard))
    bench = SolverBench(run, optimiser=optimiser, optimiser_budget_s=1.0)
    run.pods(pod(name).share(60).requests(cpu=100).label("app", "noisy") for name in ("a", "b"))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    lines: list[Any] = []
    with captured_logs(lines.append, "warning"):
        await bench.thought()
    assert lines == [], "the solver knew; the verifier had nothing to reject"
    assert optimiser.asked == 1
    optimiser.meanwhile = lambda: None
    await bench.until_idle()
    assert not {"a", "b"} & set(bench.placed())
    told = bench.commands.refusals()
    assert all("existing pods anti-affinity" in told[name] for name in ("a", "b"))
