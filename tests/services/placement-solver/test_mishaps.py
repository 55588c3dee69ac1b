"""A plugin that raises costs those their turn about whom it was asked: it is counted, logged, and named to them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.placement_solver import metrics
from berth.placement_solver.core.constraints import node_affinity
from berth.placement_solver.core.displacers.job import JobPreemption
from berth.placement_solver.core.displacers.priority import PriorityPreemption
from berth.placement_solver.core.gatherers.network_topology import NetworkGatherer
from berth.placement_solver.core.verify import verifier
from berth.testing.builders import PodBuilder, pod

BAD = "bad"


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=4000)
    made.node("n1", cpu=4000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def sized(name: str, cpu: int, priority: int = 0) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority)


def counted(plugin: str) -> float:
    return float(metrics.MISHAPS.labels(plugin)._value.get())


def raising(monkeypatch: pytest.MonkeyPatch, where: Any, what: str, when: Any = lambda *_: True) -> None:
    """`where.what` raises when `when` says so of its arguments."""
    real = getattr(where, what)

    def raises(*args: Any, **kwargs: Any) -> Any:
        if when(*args):
            raise KeyError("planted")
        return real(*args, **kwargs)

    monkeypatch.setattr(where, what, raises)


@pytest.mark.parametrize("what", ["compile_node_rule", "_restricting"])
async def test_a_constraint_that_raises_at_one_pod_costs_that_pod_alone(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """When its class is compiled, or when nodes are asked."""
    raising(monkeypatch, node_affinity, what, lambda asked, *_: asked)
    before = counted("NodeAffinity")
    bench.run.pods(sized(name, 1) for name in ("a", "b"))
    bench.run.pod(sized(BAD, 1).template(node_selector={"kind": "x"}))
    await bench.until_idle()
    assert set(bench.placed()) == {"a", "b"}
    assert "internal error in NodeAffinity: KeyError" in bench.commands.refusals()[BAD]
    assert counted("NodeAffinity") > before
    assert bench.run.cluster.nodes.free[0, :2].sum() == 6000
    monkeypatch.undo()
    bench.run.node("n2", cpu=4000, labels={"kind": "x"})
    bench.clock.time += 100
    await bench.until_idle()
    assert bench.placed()[BAD] == "n2"


async def test_a_gang_at_whose_member_a_plugin_raises_waits_whole(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench.run.cluster.solver.place

    def place(candidate: Any, *args: Any, **kwargs: Any) -> Any:
        if candidate.name[1] == "g-1":
            raise ValueError("planted")
        return real(candidate, *args, **kwargs)

    monkeypatch.setattr(bench.run.cluster.solver, "place", place)
    bench.run.pods(sized(f"g-{at}", 1).gang("g", 2) for at in range(2))
    bench.run.pod(sized("a", 1))
    await bench.until_idle()
    assert set(bench.placed()) == {"a"}
    assert all("internal error in" in bench.commands.refusals()[f"g-{at}"] for at in range(2))
    assert bench.run.cluster.nodes.free[0, :2].sum() == 7000


@pytest.mark.parametrize("optimiser", [None, object()], ids=["greedy", "optimiser"])
async def test_a_gatherer_that_raises_costs_its_gang_alone(
    run: Any, monkeypatch: pytest.MonkeyPatch, optimiser: Any
) -> None:
    bench = SolverBench(run, preempts=True, optimiser=optimiser)
    raising(monkeypatch, NetworkGatherer, "jobs")
    bench.run.pods(sized(f"g-{at}", 1).gang("g", 2) for at in range(2))
    bench.run.pod(sized("a", 1))
    await bench.until_idle()
    assert set(bench.placed()) == {"a"}
    assert all("internal error in" in bench.commands.refusals()[f"g-{at}"] for at in range(2))


@pytest.mark.parametrize("what", ["concerns", "propose"])
async def test_a_displacer_that_raises_is_named_and_the_others_are_asked(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    raising(monkeypatch, PriorityPreemption, what)
    before = counted(PriorityPreemption.name)
    bench.run.pods(sized(f"low-{at}", 4, 1).on(f"n{at}") for at in range(2))
    bench.run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert counted(PriorityPreemption.name) > before
    held = bench.run.cluster.book.ledger.decisions["default", "high"].decision
    assert held.nominates  # job preemption finds somebody, too


async def test_where_every_displacer_raises_the_refusal_says_so(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, PriorityPreemption, "propose")
    raising(monkeypatch, JobPreemption, "propose")
    bench.run.pods(sized(f"low-{at}", 4, 1).on(f"n{at}") for at in range(2))
    bench.run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert "internal error in DefaultPreemption: KeyError" in bench.commands.refusals()["high"]
    assert bench.run.cluster.nodes.free[0, :2].tolist() == [0, 0]


async def test_a_law_that_raises_lets_nothing_pass_that_it_cannot_judge(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, verifier, "tree_problems", lambda claims, _: any(each.name[1] == BAD for each in claims))
    bench.run.pods(sized(name, 1) for name in ("a", BAD))
    await bench.until_idle()
    assert set(bench.placed()) == {"a"}
    assert "internal error in verifier: KeyError" in bench.commands.refusals()[BAD]


async def test_columns_that_are_half_charged_are_not_planned_on(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a new view mends them: the process ends, and reads all anew."""
    raising(monkeypatch, bench.run.cluster.nodes, "take")
    bench.run.pod(sized("a", 1))
    with pytest.raises(KeyError):
        await bench.rounds.round()
