"""The solver's choice of CPUs and shares, the verifier's judgement and the books, on any cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import combinations
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.cores import FULL, SPREAD, own, pinned, share, shown, zoned

from berth.contracts import names, subjects
from berth.contracts.ledger import Grant
from berth.contracts.state import PodTemplate
from berth.contracts.topology import NodeTopology
from berth.placement_solver.core.cores import CoresAsked
from berth.placement_solver.core.cores.make import make_of
from berth.placement_solver.core.cores.store import KINDS
from berth.placement_solver.core.plan import Placement
from berth.placement_solver.core.trial import Trial
from berth.rules.cpus.available import usable_cpus
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.kubelet import BEST_EFFORT
from berth.testing.builders import GI, PodBuilder, node_topology, pod
from berth.transaction.claims import Claim

LAWS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def waiting(draw: st.DrawFn, index: int, cpus_max: int = 5) -> PodBuilder:
    name = f"p{index}"
    builder = pod(name).requests(cpu=1000 * draw(st.integers(1, cpus_max)), memory=draw(st.integers(0, 3)) * GI)
    builder.label(names.LABEL_QOS, draw(st.sampled_from(["LSR", "LSE", "LS", ""])))
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "requiredCPUBindPolicy": st.sampled_from([FULL, SPREAD, "Default", ""]),
                "preferredCPUBindPolicy": st.sampled_from([FULL, SPREAD]),
                "preferredCPUExclusivePolicy": st.sampled_from(["PCPULevel", "NUMANodeLevel"]),
            },
        )
    )
    builder.annotation(names.ANNOTATION_RESOURCE_SPEC, json.dumps(spec))
    policy = draw(st.sampled_from(["", "", "BestEffort", "Restricted", "SingleNUMANode"]))
    return zoned(builder, policy, draw(st.sampled_from(["Required", "Preferred"]))) if policy else builder


@st.composite
def clusters(draw: st.DrawFn, solving: type[Any]) -> Any:
    run = solving()
    for index in range(draw(st.integers(1, 2))):
        labels = draw(
            st.sampled_from(
                [
                    *([{}] * 4),
                    {names.LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"},
                    {names.LABEL_NUMA_POLICY: "Restricted"},
                    {names.LABEL_NUMA_POLICY: "SingleNUMANode", names.LABEL_NUMA_STRATEGY: "MostAllocated"},
                ]
            )
        )
        ratio = draw(st.sampled_from(["", "", '{"cpu":1.5}']))
        annotations = {names.ANNOTATION_AMPLIFICATION_RATIO: ratio} if ratio else {}
        run.node(f"n{index}", cpu=24_000, memory=16 * GI, labels=labels, annotations=annotations)
        if draw(st.integers(0, 4)):
            run.topology(
                f"n{index}",
                node_topology(
                    zones=draw(st.sampled_from([1, 2, (3, 64), (0, 2, 9)])),
                    cores=draw(st.integers(1, 3)),
                    threads=draw(st.integers(1, 2)),
                    reserved=draw(st.sampled_from([(), (0,), (1, 2)])),
                    memory=draw(st.integers(1, 6)) * GI,
                ),
            )
    for index in range(draw(st.integers(0, 2))):
        run.pod(pod(f"other-{index}").requests(cpu=1500, memory=GI).on("n0"))
    return run


@LAWS
@given(data=st.data())
def test_what_the_solver_chooses_the_verifier_accepts_and_books_come_out_the_same(
    solving: type[Any], data: st.DataObject
) -> None:
    run = data.draw(clusters(solving))
    builders = [data.draw(waiting(index)) for index in range(data.draw(st.integers(1, 6)))]
    run.pods(builders)
    solution = run.round()  # asserts that the verifier has nothing against it
    placed = {placement.candidate.name[1] for placement in solution.placements}
    bound = [builder for builder in builders if builder.build(0).name in placed]
    for builder in bound:
        run.bind(builder)
    nodes = run.cluster.nodes
    outline = CoresAsked.outline
    for constraint, query in (each for cls in run.cluster.classes for each in cls.asked):
        one_by_one = [constraint.admits(query, row) for row in range(len(nodes))]
        assert constraint.mask(query, slice(0, len(nodes))).tolist() == one_by_one, constraint.name
        with patch.object(CoresAsked, "outline", lambda query: outline(query)._replace(alike=None)):
            assert constraint.mask(query, slice(0, len(nodes))).tolist() == one_by_one, constraint.name
    cores = nodes.cores
    cores.follow()
    for row in range(len(nodes)):
        layout, free = cores.ground(row).layout, cores.free_cpus(row)
        counted = [len(usable_cpus(layout, free, kind)) if layout is not None else 0 for kind in KINDS]
        assert (cores.free[:, row].tolist(), cores.pinned[row]) == (counted, len(cores.pinned_cpus(row)))
    before = {row: shown(nodes, row) for row in range(len(nodes))}
    again = solving()
    for name in data.draw(st.permutations([builder.build(0).name for builder in bound])):
        builder = next(each for each in bound if each.build(0).name == name)
        again.pod(builder)
    for row, name in enumerate(nodes.names):
        again.cluster.nodes.see_node(name, nodes.states[row])
        again.cluster.nodes.see_topology(name, nodes.topologies[row])
    for index in range(2):
        if run.cluster.book.claims_of(("default", f"other-{index}")):
            again.pod(pod(f"other-{index}").requests(cpu=1500, memory=GI).on("n0"))
    rebuilt = {again.cluster.nodes.names.index(nodes.names[row]): row for row in range(len(nodes))}
    assert {rebuilt[row]: shown(again.cluster.nodes, row) for row in rebuilt} == before


@LAWS
@given(data=st.data())
def test_a_pod_is_placed_if_and_only_if_some_choice_would_do(solving: type[Any], data: st.DataObject) -> None:
    """Every choice of CPUs and every split of cpu over NUMA nodes is tried, and judged by the verifier."""
    run = solving()
    run.node("n", cpu=24_000)
    topology = node_topology(
        zones=data.draw(st.sampled_from([1, 2])), cores=2, reserved=data.draw(st.sampled_from([(), (0,)]))
    )
    run.topology("n", topology)
    free = [cpu for core in topology.cores for cpu in core.cpus]
    for index, cpus in enumerate(
        data.draw(st.lists(st.sets(st.sampled_from(free), min_size=1, max_size=3), max_size=2))
    ):
        text = json.dumps({"cpuset": format_cpuset(cpus)})
        run.pod(pinned(f"h{index}", len(cpus)).annotation(names.ANNOTATION_RESOURCE_STATUS, text).on("n"))
    builder = data.draw(waiting(0, cpus_max=4)).requests(memory=0)
    builder._requests.pop(names.MEMORY, None)
    run.pod(builder)
    units, _ = run.cluster.batch(10)
    ((candidate,),) = [unit.candidates for unit in units]
    assume(not candidate.cls.refusals)
    trial = Trial(run.cluster.capacity)
    found = run.cluster.solver.place(candidate, trial, "plan")
    claims = list(trial.claims)
    trial.undo()
    template: PodTemplate = candidate.object.template
    empty = Claim(name=candidate.name, uid=candidate.object.uid, node="n", amounts=dict(template.requests), plan="plan")
    choices = any(
        run.verifier.check([empty._replace(grants=grants)]) == [] for grants in every_choice(template, topology)
    )
    assert isinstance(found, Placement) == choices, (template, found, topology)
    assert all(run.verifier.check([claim]) == [] for claim in claims)


def every_choice(template: PodTemplate, topology: NodeTopology) -> Iterable[tuple[Grant, ...]]:
    zone_of = {cpu: core.zone for core in topology.cores for cpu in core.cpus}
    milli = template.requests[names.CPU]
    zones = [each.zone for each in topology.zones]
    splits: list[tuple[Grant, ...]] = [(), *((share(zone, cpu=milli),) for zone in zones)]
    if len(zones) == 2:
        splits += [(share(zones[0], cpu=part), share(zones[1], cpu=milli - part)) for part in range(500, milli, 500)]
    yield from splits
    for some in combinations(sorted(zone_of), milli // 1000):
        parts: dict[int, int] = {}
        for cpu in some:
            parts[zone_of[cpu]] = parts.get(zone_of[cpu], 0) + 1000
        yield own(*some)
        yield (*own(*some), *(share(zone, cpu=part) for zone, part in parts.items()))


SAYING = st.sampled_from(
    [{}, {"zone": "a"}, {names.LABEL_NUMA_POLICY: BEST_EFFORT}, {names.LABEL_CPU_BIND_POLICY: FULL}]
)
RATIOS = st.sampled_from([{}, {names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu": 1.5}'}])
EVENTS = st.tuples(st.sampled_from("abc"), st.sampled_from(["node", "gone", "topology", "look"]), SAYING, RATIOS)


@LAWS
@given(events=st.lists(EVENTS, max_size=16))
def test_the_make_of_a_node_is_that_of_what_is_shown_now(
    solving: type[Any], events: list[tuple[str, str, dict[str, str], dict[str, str]]]
) -> None:
    """Whatever came before: nodes that go and come, under names that others had, with topologies that stay."""
    run = solving()
    nodes, cores = run.cluster.nodes, run.cluster.nodes.cores
    for name, what, labels, notes in events:
        if what == "node":
            run.node(name, labels=labels, annotations=notes)
        elif what == "gone" and name in nodes.rows:
            run.delete(subjects.named_key("node", name))
        elif what == "topology":
            run.topology(name, node_topology(zones=2, policy=labels.get(names.LABEL_NUMA_POLICY, "")))
        elif what == "look":
            cores.follow()
    cores.follow()
    for row in range(len(nodes)):
        node, ratio = nodes.states[row], cores.ratio(row)
        assert cores.make_of(row) == make_of(node.labels if node is not None else {}, cores.ground(row), ratio)
        assert cores.ratios[row] == ratio
    assert cores.imposes == any(cores.make_of(row).imposes for row in range(len(nodes)))


def test_nodes_that_say_nothing_of_cpus_are_not_looked_at(solving: Any) -> None:
    run = solving()
    for index in range(20):
        run.node(f"plain-{index}", labels={"zone": str(index)})
    run.node("bound", labels={names.LABEL_NUMA_POLICY: BEST_EFFORT})
    cores, looked = run.cluster.nodes.cores, []
    with patch.object(type(cores), "_remake", lambda self, row: looked.append(row)):
        cores.follow()
        cores.follow()
    assert looked == [run.cluster.nodes.rows["bound"]]
