"""Preemption for gangs that ask for a place in the network: all victims are of one domain, and the cheapest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector
from berth.contracts.ledger import Decision
from berth.contracts.state import PodDisruptionBudget
from berth.placement_solver import metrics
from berth.rules.eviction_notes import Mark, Nominated, mark_note, nomination_note
from berth.rules.preemption import BY_QUOTA, BY_SCHEDULER
from berth.testing.builders import PodBuilder, gpu_grant, gpu_slots, pod

SPINE, BLOCK = "SpineLayer", "BlockLayer"
PLACES = {1: ("s1", "b1"), 8: ("s1", "b1"), 2: ("s1", "b2"), 7: ("s1", "b2")} | {
    3: ("s2", "b3"),
    6: ("s2", "b3"),
    4: ("s2", "b4"),
    5: ("s2", "b4"),
}


def spec(*rules: tuple[str, str, int]) -> str:
    return json.dumps(
        {
            "gatherStrategy": [
                {"layer": layer, "strategy": strategy, "podCountMultiple": multiple}
                for layer, strategy, multiple in rules
            ]
        }
    )


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """The tree of the reference: two spines with two blocks each, two nodes of 16 cores in each block."""
    made = solving()
    made.network(SPINE, BLOCK)
    for node, path in PLACES.items():
        made.node(f"node-{node}", cpu=16_000, labels={SPINE: path[0], BLOCK: path[1]})
        made.lies(f"node-{node}", *path)
    made.complete()
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def low(run: Any, node: int, priority: int = 1, cpu: int = 16, name: str = "") -> None:
    made = pod(name or f"low-{node}").requests(cpu=cpu * 1000).template(priority=priority)
    run.pod(made.on(f"node-{node}"))


def gang(run: Any, count: int, asked: str, *, cpu: int = 16, minimum: int | None = None) -> None:
    annotations = {names.ANNOTATION_GANG_TOPOLOGY: asked}
    run.pod_group("g", count if minimum is None else minimum, annotations=annotations)
    for at in range(count):
        run.pod(member(at, cpu=cpu))


def member(at: int, *, cpu: int = 16) -> PodBuilder:
    return pod(f"p{at}").requests(cpu=cpu * 1000).template(priority=9).gang("g")


def decisions(run: Any) -> dict[str, Decision]:
    return {name[1]: held.decision for name, held in run.cluster.book.ledger.decisions.items()}


def where(run: Any) -> dict[str, str]:
    return {name: each.node.removeprefix("node-") for name, each in decisions(run).items()}


def victims(run: Any) -> list[str]:
    return sorted({victim.name for each in decisions(run).values() for victim in each.victims})


async def test_whoever_leaves_is_of_the_cheapest_spine(run: Any, bench: SolverBench) -> None:
    low(run, 1, priority=5)
    low(run, 4, priority=2)
    gang(run, 4, spec((SPINE, "MustGather", 0)))
    await bench.until_idle()
    assert set(where(run).values()) == {"3", "6", "4", "5"}
    assert victims(run) == ["low-4"]
    found = decisions(run)["p0"]
    assert found.nominates
    assert found.gang is not None
    assert found.gang.domain is not None
    assert found.gang.domain.path == ["s2"]


async def test_where_all_domains_keep_somebody_that_stays_nobody_leaves(run: Any, bench: SolverBench) -> None:
    for node in (1, 2, 4):
        low(run, node, priority=9)
    for node in (3, 5, 6, 7, 8):
        low(run, node)
    gang(run, 4, spec((SPINE, "MustGather", 0)))
    await bench.until_idle()
    assert decisions(run) == {}


async def test_the_lowest_layer_that_is_named_and_does_it_is_kept(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node, priority=1 if node in (1, 2) else 3)
    gang(run, 2, spec((SPINE, "MustGather", 0), (BLOCK, "PreferGather", 0)))
    await bench.until_idle()
    assert len({PLACES[int(node)][1] for node in where(run).values()}) == 1


async def test_layers_that_are_not_named_do_not_make_more_leave(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node, priority=1 if node in (1, 2) else 3)
    gang(run, 2, spec((SPINE, "MustGather", 0)))
    await bench.until_idle()
    assert victims(run) == ["low-1", "low-2"]


async def test_multiples_hold_in_every_layer(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node, cpu=8)
        low(run, node, priority=9, cpu=8 if node in (1, 3) else 0, name=f"stays-{node}")
    gang(run, 4, spec((SPINE, "MustGather", 0), ("NodeTopologyLayer", "PreferGather", 2)), cpu=8)
    await bench.until_idle()
    counts: dict[str, int] = {}
    for node in where(run).values():
        counts[node] = counts.get(node, 0) + 1
    assert set(counts.values()) == {2}
    assert len({PLACES[int(node)][0] for node in counts}) == 1
    assert not set(counts) & {"1", "3"}


async def test_the_gang_is_decided_in_a_domain_once_all_have_left(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node, priority=1 if node in (3, 6) else 4)
    gang(run, 2, spec((BLOCK, "MustGather", 0)))
    await bench.until_idle()
    found = decisions(run)
    assert victims(run) == ["low-3", "low-6"]
    for at in range(2):
        each = found[f"p{at}"]
        noted = member(at).set(nominated=each.node)
        for key, value in nomination_note(Nominated(each.plan, each.node)).items():
            noted.annotation(key, value)
        run.pod(noted)
    for node in (3, 6):
        marked = pod(f"low-{node}").requests(cpu=16_000).template(priority=1).on(f"node-{node}")
        for key, value in mark_note(Mark(found["p0"].plan, "default/p0", found["p0"].uid, BY_SCHEDULER)).items():
            marked.annotation(key, value)
        run.pod(marked.set(deleting=True, disruption=BY_SCHEDULER))
    bench.clock.time += 20
    await bench.until_idle()
    assert all(each.nominates for each in decisions(run).values()), "nothing is free yet"
    for node in (3, 6):
        run.delete_pod(f"low-{node}")
    bench.clock.time += 20
    await bench.until_idle()
    assert not any(each.nominates for each in decisions(run).values())
    assert set(where(run).values()) == {"3", "6"}
    assert not run.cluster.capacity.nominated


async def test_a_late_member_makes_others_leave_in_the_domain_of_its_gang(run: Any, bench: SolverBench) -> None:
    gang(run, 2, spec((SPINE, "MustGather", 0)))
    for at, node in enumerate((1, 2)):
        run.pod(member(at).on(f"node-{node}"))
    for node in (3, 4, 5, 6, 7, 8):
        low(run, node, priority=1 if node != 7 else 3)
    run.pod(member(2))
    await bench.until_idle()
    found = decisions(run)["p2"]
    assert victims(run) == ["low-8"]
    assert found.gang is not None
    assert found.gang.domain is not None
    assert found.gang.domain.path == ["s1"]


def mixed(run: Any, *asked: str, cpu: int = 16, gpus: int = 0) -> None:
    """Gangs of two members that start together; of each what it asks of the network, or nothing."""
    gangs = [f"gang-{at}" for at in range(len(asked))]
    together = json.dumps([f"default/{name}" for name in gangs])
    for at, (name, text) in enumerate(zip(gangs, asked, strict=True)):
        notes = {names.ANNOTATION_GANG_GROUPS: together} | ({names.ANNOTATION_GANG_TOPOLOGY: text} if text else {})
        run.pod_group(name, 2, annotations=notes)
        for each in (2 * at, 2 * at + 1):
            made = pod(f"p{each}").requests(cpu=cpu * 1000).template(priority=9).gang(name)
            run.pod(made.gpus(gpus) if gpus else made)


def paths(run: Any) -> dict[str, list[str]]:
    found = {name: each.gang for name, each in decisions(run).items()}
    return {name: gang.domain.path for name, gang in found.items() if gang is not None and gang.domain is not None}


async def test_of_a_group_some_lie_together_and_others_anywhere(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node, priority={3: 1, 6: 1, 1: 1, 2: 3}.get(node, 9))
    mixed(run, spec((BLOCK, "MustGather", 0)), "")
    before = metrics.REJECTED_PLANS._value.get()
    await bench.until_idle()
    assert victims(run) == ["low-1", "low-2", "low-3", "low-6"]
    assert {where(run)["p0"], where(run)["p1"]} == {"3", "6"}, "the one block that others leave"
    assert paths(run) == {"p0": ["s2", "b3"], "p1": ["s2", "b3"]}
    assert {each.gang.size for each in decisions(run).values() if each.gang} == {4}
    assert metrics.REJECTED_PLANS._value.get() == before


async def test_what_a_budget_allows_is_spent_once_for_all_parts(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        made = pod(f"low-{node}").requests(cpu=16_000).template(priority={3: 1, 6: 1, 1: 2, 2: 3, 7: 3}.get(node, 9))
        run.pod((made.label("app", "x") if node in (1, 3, 6) else made).on(f"node-{node}"))
    run.version += 1
    budget = PodDisruptionBudget(
        namespace="default",
        name="b",
        version=run.version,
        selector=LabelSelector(match_labels={"app": "x"}),
        disruptions_allowed=2,
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    mixed(run, spec((BLOCK, "MustGather", 0)), "")
    await bench.until_idle()
    assert victims(run) == ["low-2", "low-3", "low-6", "low-7"], "the first part has spent the budget"


async def test_gangs_of_a_group_each_lie_where_they_have_to(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node)
    mixed(run, spec((BLOCK, "MustGather", 0)), spec((SPINE, "MustGather", 0)))
    await bench.until_idle()
    assert len(victims(run)) == 4
    assert len({PLACES[int(where(run)[name])][1] for name in ("p0", "p1")}) == 1
    assert len({PLACES[int(where(run)[name])][0] for name in ("p2", "p3")}) == 1


async def test_nobody_leaves_where_one_of_them_has_no_domain(run: Any, bench: SolverBench) -> None:
    for node in PLACES:
        low(run, node, priority=9 if node in (1, 2, 3, 4) else 1)
    mixed(run, "", spec((BLOCK, "MustGather", 0)))
    await bench.until_idle()
    assert decisions(run) == {}


async def test_who_is_not_needed_once_all_parts_have_places_stays(run: Any, bench: SolverBench) -> None:
    """The first part has the place of the small one; for the second the large one leaves, which is enough for both."""
    for node in PLACES:
        if node == 3:
            low(run, node, cpu=4, name="small")
            low(run, node, priority=2, cpu=12, name="large")
        else:
            low(run, node, priority=9)
    mixed(run, spec(("NodeTopologyLayer", "MustGather", 0)), "", cpu=2)
    await bench.until_idle()
    assert set(where(run).values()) == {"3"}
    assert victims(run) == ["large"]


async def test_a_gang_that_leaves_for_one_part_takes_along_whom_it_spared_for_another(
    run: Any, bench: SolverBench
) -> None:
    """The first part has the place of a member that the gang can spare, for the second the whole gang leaves."""
    run.pod_group("v", 2)
    for name, node, cpu, priority in (("spare", 3, 4, 1), ("large", 3, 12, 2), ("far", 6, 1, 2)):
        made = pod(name).requests(cpu=cpu * 1000).template(priority=priority).gang("v")
        run.pod(made.on(f"node-{node}"))
    low(run, 6, priority=9, cpu=15)
    for node in PLACES.keys() - {3, 6}:
        low(run, node, priority=9)
    mixed(run, spec(("NodeTopologyLayer", "MustGather", 0)), "", cpu=2)
    before = metrics.REJECTED_PLANS._value.get()
    await bench.until_idle()
    assert metrics.REJECTED_PLANS._value.get() == before
    assert victims(run) == ["far", "large", "spare"]
    assert len(where(run)) == 4


async def test_who_stays_after_all_keeps_his_devices(run: Any, bench: SolverBench) -> None:
    """What the first part was granted is what the small one holds; both parts end up with what the large one held."""
    run.devices("node-3", gpu_slots(8))
    for node in PLACES:
        if node == 3:
            for name, cpu, priority, cards in (("small", 4, 1, range(2)), ("large", 12, 2, range(2, 8))):
                made = pod(name).requests(cpu=cpu * 1000).gpus(len(cards)).template(priority=priority)
                run.pod(made.on("node-3", [gpu_grant(card) for card in cards]))
        else:
            low(run, node, priority=9)
    mixed(run, spec(("NodeTopologyLayer", "MustGather", 0)), "", cpu=2, gpus=1)
    before = metrics.REJECTED_PLANS._value.get()
    await bench.until_idle()
    assert metrics.REJECTED_PLANS._value.get() == before
    assert victims(run) == ["large"]
    assert set(where(run).values()) == {"3"}


async def test_what_was_lent_comes_back_to_a_gang_that_lies_together(run: Any, bench: SolverBench) -> None:
    """Whatever the priorities; in one domain, and no more than that takes."""
    cores = {names.CPU: 64_000}
    run.quota("owner", min=cores, max=cores, runtime=cores, effective_min=cores)
    run.quota("borrower", min={}, max={names.CPU: 999_000}, runtime={names.CPU: 16_000})
    for node in PLACES:
        made = pod(f"lent-{node}").requests(cpu=16_000).template(priority=99).label(names.LABEL_QUOTA_NAME, "borrower")
        run.pod(made.annotation(names.ANNOTATION_QUOTA, "/borrower").on(f"node-{node}"))
    run.pod_group("g", 4, annotations={names.ANNOTATION_GANG_TOPOLOGY: spec((SPINE, "MustGather", 0))})
    for at in range(4):
        run.pod(member(at).label(names.LABEL_QUOTA_NAME, "owner"))
    await bench.until_idle()
    found = decisions(run)
    assert sorted(where(run).values()) in (["1", "2", "7", "8"], ["3", "4", "5", "6"])
    assert {each.eviction_reason for each in found.values()} == {BY_QUOTA}
    assert len(victims(run)) == 4
    paths = [each.gang.domain.path for each in found.values() if each.gang is not None and each.gang.domain is not None]
    assert len(paths) == 4
    assert all(each == paths[0] for each in paths)
    for name in victims(run):
        run.delete_pod(name)
    bench.clock.time += 20
    await bench.until_idle()
    assert not any(each.nominates for each in decisions(run).values())
    assert len(where(run)) == 4
