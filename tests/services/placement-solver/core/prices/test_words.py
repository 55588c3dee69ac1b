"""What one more would admit, against the program solved anew with one more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.contracts import names
from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.prices.models import Models
from berth.placement_solver.core.prices.problem import Duals, Layout, PriceProblem, price_problem
from berth.placement_solver.core.prices.program import solve
from berth.placement_solver.core.prices.words import admissions
from berth.placement_solver.core.prices.workload import Workload
from berth.testing.builders import PodBuilder, gpu_slots, pod


def world(solving: Any, *nodes: tuple[str, int, int]) -> Any:
    """Nodes of these models, GPUs and thousandths of cores."""
    run = solving()
    for at, (model, gpus, cpu) in enumerate(nodes):
        run.node(f"n{at}", cpu=cpu, labels={"model": model, names.LABEL_GPU_MODEL: model})
        run.devices(f"n{at}", gpu_slots(gpus))
    return run


def asked(run: Any, workload: Workload) -> tuple[PriceProblem, Layout]:
    found = price_problem(workload, Models(run.cluster.nodes), run.cluster.solver.costs.suitable, run.cluster.quotas)
    assert found is not None
    return found


def solved(problem: PriceProblem) -> Duals:
    found = solve(problem)
    assert found is not None
    return found


def arriving(run: Any, *builders: PodBuilder, payers: tuple[tuple[str, str] | None, ...] = ()) -> Workload:
    """As many pods of each."""
    run.pods(dict.fromkeys(builders))
    units, _ = run.cluster.batch(len(builders))
    by_name = {candidate.name[1]: candidate.cls for unit in units for candidate in unit.candidates}
    workload = Workload()
    for at, builder in enumerate(builders):
        cls = by_name[builder.build(1).name]
        run.cluster.solver.costs.of(cls)
        workload.came(cls, payers[at] if payers else None)
    return workload


def test_a_card_that_some_are_bound_to_admits_those_that_fall_short(solving: Any) -> None:
    run = world(solving, ("T4", 1, 64_000), ("A100", 8, 64_000), ("A100", 8, 64_000))
    bound, free = pod("a").gpus(1).requests(cpu=1000), pod("b").gpus(1).requests(cpu=1000)
    workload = arriving(run, bound.only_on("model", "T4"), *[free] * 5)
    problem, layout = asked(run, workload)
    before = solved(problem)
    found = {(each.kind, each.name): each for each in admissions(problem, layout, before)}
    card = found["card", "T4 x1"]
    assert card.of == "1 GPU, 1 core on T4"
    assert card.text == f"one more card of T4 x1 nodes admits {card.pods:.2g} pods of 1 GPU, 1 core on T4"
    at = next(at for at, kind in enumerate(layout.kinds) if kind.model == "T4")
    cards = [count + (place == at) for place, count in enumerate(problem.cards)]
    after = solved(msgspec.structs.replace(problem, cards=cards))
    (short,) = [place for place, number in enumerate(before.short) if number > 0.1]
    assert before.short[short] - after.short[short] == pytest.approx(card.pods, abs=0.01)
    assert found["node", "T4 x1"].worth == pytest.approx(card.worth, rel=0.01)


def test_cores_that_are_short_admit_pods_as_they_arrive(solving: Any) -> None:
    run = world(solving, ("A100", 8, 16_000))
    workload = arriving(run, pod("a").gpus(1).requests(cpu=4000))
    problem, layout = asked(run, workload)
    (core, node) = admissions(problem, layout, solved(problem))
    assert (node.kind, core.kind) in (("node", "core"), ("core", "node"))
    core = core if core.kind == "core" else node
    assert core.pods == pytest.approx(2.5, abs=0.01), "ten cores are those of two and a half"
    assert core.text == "10 more cores beside the cards of A100 x8 nodes admit 2.5 pods as they arrive"


def test_a_quota_that_binds_has_a_price(solving: Any) -> None:
    run = world(solving, ("A100", 8, 64_000), ("A100", 8, 64_000))
    limit = {names.NVIDIA_GPU: 1}
    group = QuotaGroup(tree="", name="ml", revision=1, limits=[names.NVIDIA_GPU], max=limit, runtime=limit)
    run.cluster.quotas.see("", "ml", group)
    other = pod("b").gpus(1)
    workload = arriving(run, pod("a").gpus(2), *[other] * 8, payers=(("", "ml"), *[None] * 8))
    problem, layout = asked(run, workload)
    assert problem.quotas == [1.0]
    duals = solved(problem)
    (quota,) = [each for each in admissions(problem, layout, duals) if each.kind == "quota"]
    assert quota.name == "/ml"
    assert quota.text.startswith("one card more for quota /ml admits ")
    more = solved(msgspec.structs.replace(problem, quotas=[2.0]))
    at = next(at for at, charged in enumerate(problem.charges[0]) if charged)
    assert problem.charges[0][at] == 2.0
    assert 0.0 < quota.pods < 0.5, "a card is half a pod, and others lose something for it"
    assert duals.short[at] - more.short[at] >= quota.pods
    run.cluster.quotas.see("", "ml", None)
    assert asked(run, workload)[0].quotas == []


def test_nothing_is_short(solving: Any) -> None:
    run = world(solving, ("A100", 8, 64_000))
    problem, layout = asked(run, arriving(run, pod("a").gpus(1).requests(cpu=100)))
    zeros = [0.0] * len(layout.kinds)
    duals = Duals([0.0] * 100, zeros, zeros, [], [0.0] * len(layout.classes))
    assert admissions(problem, layout, duals) == ()
