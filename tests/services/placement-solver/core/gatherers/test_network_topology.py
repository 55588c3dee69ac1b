"""Gangs in the network: where they go as a whole, and what is refused by the name of the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.contracts import names
from berth.contracts.kube import Taint
from berth.contracts.question import WhyQuestion
from berth.placement_solver.why import answer
from berth.testing.builders import GI, gpu_slots, pod

SPINE, BLOCK = "SpineLayer", "BlockLayer"


def spec(*rules: tuple[Any, ...]) -> str:
    strategies = [
        {"layer": layer, "strategy": strategy, **({"podCountMultiple": more[0]} if more else {})}
        for layer, strategy, *more in rules
    ]
    return json.dumps({"gatherStrategy": strategies})


def must(layer: str, multiple: int = 0) -> str:
    return spec((layer, "MustGather", multiple))


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """Two spines with two blocks each, two nodes of 16 cores in each block, as in the reference."""
    run = solving()
    run.network(SPINE, BLOCK)
    for node, path in {
        **dict.fromkeys((1, 8), ("s1", "b1")),
        **dict.fromkeys((2, 7), ("s1", "b2")),
        **dict.fromkeys((3, 6), ("s2", "b3")),
        **dict.fromkeys((4, 5), ("s2", "b4")),
    }.items():
        run.node(f"node-{node}", cpu=16_000, labels={SPINE: path[0], BLOCK: path[1]})
        run.lies(f"node-{node}", *path)
    run.complete()
    return run


def gang(run: Any, count: int, asked: str, cpu: int = 16_000, minimum: int | None = None, **more: Any) -> None:
    run.pod_group("g", count if minimum is None else minimum, annotations={names.ANNOTATION_GANG_TOPOLOGY: asked})
    for at in range(count):
        member = pod(f"p{at}").requests(cpu=cpu, memory=GI).gang("g")
        for key, value in more.items():
            member.annotation(key.format(at=at), str(value).format(at=at))
        run.pod(member)


def where(run: Any, solution: Any) -> dict[str, str]:
    found: dict[str, str] = run.nodes_of(solution)
    return found


def reasons(solution: Any) -> list[str]:
    return [reason.message for reason in solution.refusals[0].reasons]


def test_a_gang_goes_into_one_spine(run: Any) -> None:
    gang(run, 4, must(SPINE))
    assert where(run, run.round()) == {"p0": "node-1", "p1": "node-8", "p2": "node-2", "p3": "node-7"}


def test_its_decisions_name_the_domain(run: Any) -> None:
    gang(run, 2, must(BLOCK))
    run.round()
    held = run.cluster.book.ledger.decisions["default", "p0"].decision
    assert held.gang.domain.layer == BLOCK
    assert held.gang.domain.path == ["s1", "b1"]
    assert held.gang.domain.label_keys == [[SPINE], [BLOCK]]
    assert held.gang.domain.is_lowest


def test_where_no_spine_has_room_it_waits_and_hears_what_each_has(run: Any) -> None:
    for node in (1, 4):
        run.pod(pod(f"there-{node}").requests(cpu=16_000).set(node=f"node-{node}", phase="Running"))
    gang(run, 4, must(SPINE))
    solution = run.round()
    assert not solution.placements
    assert any("SpineLayer/s1: 3;SpineLayer/s2: 3" in text for text in reasons(solution))


def test_what_is_only_preferred_may_be_crossed(run: Any) -> None:
    for node in (1, 4):
        run.pod(pod(f"there-{node}").requests(cpu=16_000).set(node=f"node-{node}", phase="Running"))
    gang(run, 5, spec((SPINE, "PreferGather")))
    assert len(run.round().placements) == 5


def test_as_many_as_fit_go_where_more_than_the_minimum_wait(run: Any) -> None:
    gang(run, 6, must(SPINE), minimum=3)
    solution = run.round()
    assert len(solution.placements) == 4
    assert len({placement.claim.node for placement in solution.placements} & {f"node-{n}" for n in (1, 2, 7, 8)}) == 4


def test_neighbours_by_index_lie_in_one_block(run: Any) -> None:
    ranks = {0: 2, 1: 0, 2: 3, 3: 1}
    run.pod_group("g", 4, annotations={names.ANNOTATION_GANG_TOPOLOGY: must(SPINE)})
    for at, rank in ranks.items():
        member = pod(f"p{at}").requests(cpu=16_000).gang("g")
        run.pod(member.annotation(names.ANNOTATION_GANG_TOPOLOGY_INDEX, str(rank)))
    found = where(run, run.round())
    assert [found[name] for name in ("p1", "p3", "p0", "p2")] == ["node-1", "node-8", "node-2", "node-7"]


def test_multiples_hold_in_every_layer(run: Any) -> None:
    gang(run, 6, spec((NODE, "PreferGather", 2)), cpu=8_000)
    counts: dict[str, int] = {}
    for node in where(run, run.round()).values():
        counts[node] = counts.get(node, 0) + 1
    assert set(counts.values()) == {2}


NODE = "NodeTopologyLayer"


def test_a_successor_goes_into_the_domain_of_the_others(run: Any) -> None:
    gang(run, 3, must(SPINE), cpu=8_000)
    run.round()
    for at in range(3):
        run.bind(pod(f"p{at}").requests(cpu=8_000, memory=GI).gang("g"))
    for node in (1, 2, 7, 8):
        run.pod(pod(f"fills-{node}").requests(cpu=8_000).set(node=f"node-{node}", phase="Running"))
    run.delete_pod("p2")
    run.pod(pod("p9").requests(cpu=16_000).gang("g"))
    solution = run.round()
    assert not solution.placements
    assert any("outside of the network domain of the gang" in text for text in reasons(solution))
    run.pod(pod("p8").requests(cpu=1_000).gang("g"))
    run.delete_pod("fills-7")
    solution = run.round()
    assert where(run, solution)["p8"] in {f"node-{n}" for n in (1, 2, 7, 8)}
    assert solution.placements[0].gang.domain.path == ["s1"]


def test_successors_of_all_members_choose_their_domain_together(run: Any) -> None:
    gang(run, 3, must(SPINE))
    run.round()
    for at in range(3):
        run.bind(pod(f"p{at}").requests(cpu=16_000, memory=GI).gang("g"))
    assert run.cluster.gangs.readiness("default/g").satisfied
    for at in range(3):
        run.delete_pod(f"p{at}")
    run.pod(pod("fills").requests(cpu=16_000).set(node="node-1", phase="Running"))
    for at in range(3, 7):
        run.pod(pod(f"p{at}").requests(cpu=16_000, memory=GI).gang("g"))
    solution = run.round()
    assert set(where(run, solution).values()) == {f"node-{n}" for n in (3, 4, 5, 6)}
    assert not solution.placements[0].gang.strict
    assert solution.placements[0].gang.domain.path == ["s2"]


def test_of_successors_as_many_as_fit_begin_and_the_others_follow_into_their_domain(run: Any) -> None:
    gang(run, 2, must(BLOCK))
    run.round()
    for at in range(2):
        run.bind(pod(f"p{at}").requests(cpu=16_000, memory=GI).gang("g"))
    assert run.cluster.gangs.readiness("default/g").satisfied
    for at in range(2):
        run.delete_pod(f"p{at}")
    for at in range(2, 5):
        run.pod(pod(f"p{at}").requests(cpu=16_000, memory=GI).gang("g"))
    solution = run.round()
    assert len(solution.placements) == 2
    assert len(solution.refusals) == 1


def test_a_node_that_takes_no_more_than_its_bound_says_so_and_the_plan_is_made_anew(run: Any) -> None:
    for node in (2, 7):
        run.node(f"node-{node}", cpu=16_000, labels={SPINE: "s1"}, taints=[Taint(key="x", effect="NoSchedule")])
    gang(run, 4, must(SPINE))
    assert set(where(run, run.round()).values()) == {f"node-{n}" for n in (3, 4, 5, 6)}


def test_members_that_differ_are_gathered_as_well(run: Any) -> None:
    run.pod_group("g", 3, annotations={names.ANNOTATION_GANG_TOPOLOGY: must(BLOCK)})
    for name, cpu in {"launcher": 2_000, "w0": 14_000, "w1": 16_000}.items():
        run.pod(pod(name).requests(cpu=cpu).gang("g"))
    found = where(run, run.round())
    assert len(found) == 3
    assert len({run.cluster.network.path(node)[:2] for node in found.values()}) == 1


def test_cards_are_counted(solving: type[Any]) -> None:
    run = solving()
    run.network("rack")
    for at in range(4):
        run.node(f"n{at}", cpu=64_000)
        run.devices(f"n{at}", gpu_slots(8))
        run.lies(f"n{at}", f"r{at // 2}")
    run.complete()
    run.pod(pod("there").gpus(4).set(node="n0", phase="Running"))
    gang_of_gpus = [pod(f"p{at}").gpus(8).gang("g") for at in range(2)]
    run.pod_group("g", 2, annotations={names.ANNOTATION_GANG_TOPOLOGY: must("rack")})
    run.pods(gang_of_gpus)
    assert set(where(run, run.round()).values()) == {"n2", "n3"}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ("{", f"metadata.annotations[{names.ANNOTATION_GANG_TOPOLOGY}]"),
        (must("Rack"), f"metadata.annotations[{names.ANNOTATION_GANG_TOPOLOGY}].gatherStrategy[0].layer"),
        (spec((SPINE, "Gather")), f"metadata.annotations[{names.ANNOTATION_GANG_TOPOLOGY}].gatherStrategy[0].strategy"),
        (
            must(SPINE, 1 << 40),
            f"metadata.annotations[{names.ANNOTATION_GANG_TOPOLOGY}].gatherStrategy[0].podCountMultiple",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(run: Any, asked: str, field: str) -> None:
    gang(run, 2, asked)
    solution = run.round()
    assert not solution.placements
    assert field in {reason.field for refusal in solution.refusals for reason in refusal.reasons}


def test_an_index_out_of_bounds_is_refused_by_its_field(run: Any) -> None:
    gang(run, 2, must(SPINE), **{names.ANNOTATION_GANG_TOPOLOGY_INDEX: 1 << 40})
    solution = run.round()
    assert not solution.placements
    assert f"metadata.annotations[{names.ANNOTATION_GANG_TOPOLOGY_INDEX}]" in {
        reason.field for refusal in solution.refusals for reason in refusal.reasons
    }


def test_a_pod_without_a_gang_is_refused_by_the_field(run: Any) -> None:
    run.pod(pod("p").requests(cpu=1).annotation(names.ANNOTATION_GANG_TOPOLOGY, must(SPINE)))
    assert "is for gangs" in reasons(run.round())[0]


def test_without_a_network_nobody_who_asks_is_placed_and_with_one_again(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=16_000)
    run.complete()
    gang(run, 1, must("rack"))
    assert reasons(run.round())[1:] == ["no cluster network topology"]
    run.network("rack")
    run.lies("n", "r")
    run.cluster.wake()
    run.cluster.now += 60
    assert where(run, run.round()) == {"p0": "n"}


def test_a_node_outside_of_the_network_gets_nobody_who_asks(run: Any) -> None:
    run.node("big", cpu=640_000)
    gang(run, 2, spec((SPINE, "PreferGather")), cpu=160_000)
    solution = run.round()
    assert not solution.placements


def test_gangs_of_a_group_with_different_wishes_are_gathered_apart(run: Any) -> None:
    group = json.dumps(["default/a", "default/b"])
    for name, layer in {"a": BLOCK, "b": SPINE}.items():
        notes = {names.ANNOTATION_GANG_TOPOLOGY: must(layer), names.ANNOTATION_GANG_GROUPS: group}
        run.pod_group(name, 2, annotations=notes)
        run.pods(pod(f"{name}{at}").requests(cpu=16_000).gang(name) for at in range(2))
    found = where(run, run.round())
    assert len(found) == 4
    assert len({run.cluster.network.path(found[f"a{at}"])[:2] for at in range(2)}) == 1
    assert len({run.cluster.network.path(found[f"b{at}"])[:1] for at in range(2)}) == 1


def test_a_selector_draws_a_late_pod_near_its_relatives(run: Any) -> None:
    for at, node in enumerate(("node-8", "node-7", "node-6")):
        there = pod(f"there-{at}").requests(cpu=16_000).annotation(names.ANNOTATION_TOPOLOGY_SELECTOR, "job")
        run.pod(there.set(node=node, phase="Running"))
    run.pod(pod("late").requests(cpu=16_000).annotation(names.ANNOTATION_TOPOLOGY_SELECTOR, "job"))
    assert where(run, run.round())["late"] in {"node-1", "node-2"}


def facts(run: Any) -> dict[str, str]:
    found: dict[str, str] = answer(run.cluster, WhyQuestion(kind="gang", namespace="default", name="g")).facts
    return found


def test_why_says_what_each_domain_takes(run: Any) -> None:
    run.pod(pod("there").requests(cpu=16_000).set(node="node-1", phase="Running"))
    gang(run, 4, must(SPINE))
    assert facts(run)["slots"] == "SpineLayer/s1: 3; SpineLayer/s2: 4"


def test_a_running_gang_whose_labels_change_is_called_scattered(run: Any) -> None:
    gang(run, 2, must(BLOCK))
    run.round()
    for at in range(2):
        run.bind(pod(f"p{at}").requests(cpu=16_000, memory=GI).gang("g"))
    assert facts(run)["domain"] == "BlockLayer s1/b1 (2)"
    run.lies("node-8", "s2", "b3")
    assert facts(run)["scattered"] == "BlockLayer s1/b1 (1), s2/b3 (1)"
