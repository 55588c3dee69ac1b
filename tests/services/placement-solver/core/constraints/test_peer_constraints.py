"""Spread and affinity between pods: all nodes at once, one node under a hypothesis, and the definition say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.rules.pod_scores import affinity_scores, normalise_affinity, normalise_spread, spread_scores

from berth.contracts.kube import Affinity, LabelSelector, PodAffinity, PodAffinityTerm
from berth.contracts.state import Node, Pod
from berth.placement_solver.core.constraints.inter_pod_affinity import InterPodAffinity
from berth.placement_solver.core.constraints.pod_topology_spread import PodTopologySpread
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.pod_selectors import PodSelectors
from berth.placement_solver.core.scores.inter_pod_affinity import InterPodAffinityScore
from berth.placement_solver.core.scores.pod_topology_spread import PodTopologySpreadScore
from berth.placement_solver.core.seams import Charge, Hypothesis, Rejection, Spec, Target, Unusable
from berth.placement_solver.core.tallies.affine_pods import AffinePods
from berth.placement_solver.core.tallies.domains import LabelDomains
from berth.placement_solver.core.tallies.peers import Peers
from berth.placement_solver.core.tallies.spreads import Spreads
from berth.rules.inter_pod_affinity import HARD_WEIGHT, AffinityCounts
from berth.rules.pod_terms import Peer, Placed, Unfit, compile_pod_terms
from berth.rules.scheduler_config import PodTopologySpreadArgs
from berth.rules.scheduler_config.args import read_args
from berth.rules.topology_spread import (
    SpreadCounts,
    compile_spread,
    incoming_of,
)
from berth.testing import builders
from berth.testing.builders import PodBuilder
from berth.testing.peer_worlds import World, nodes_of, pods_of, read_selecting, read_world, worlds
from berth.testing.vectors import cases
from berth.transaction.claims import Claim


class Side:
    """A world on the solver's side: columns, tally, constraints, scores."""

    def __init__(self, world: World, given: dict[str, Any] | None = None) -> None:
        """`given`: the Services, controllers and arguments of a reference case."""
        self.world = world
        args = read_args("PodTopologySpread", (given or {}).get("args", {}), "args")
        assert isinstance(args, PodTopologySpreadArgs)
        selectors = PodSelectors()
        selectors.objects = read_selecting(given or {})
        for tracker in selectors.complete.values():
            tracker.marked(1, True)
            tracker.end()
        self.nodes = Nodes(capacity=2)
        self.peers = Peers()
        domains = LabelDomains(self.nodes)
        spreads = Spreads(self.nodes, domains, self.peers, selectors, args.defaults)
        self.affine = affine = AffinePods(self.nodes, domains, self.peers)
        self.spread, self.affinity = PodTopologySpread(spreads), InterPodAffinity(affine)
        self.spread_score, self.affinity_score = PodTopologySpreadScore(spreads), InterPodAffinityScore(affine)
        for name, labels in world.namespaces.items():
            self.peers.see_namespace(name, labels)
        for node in world.nodes.values():
            self.nodes.see_node(node.name, node)
        self.placed: list[Pod] = []
        for pod in world.pods:
            self.place(pod)

    def place(self, pod: Pod, node: str = "") -> None:
        """See the pod, waiting, and charge a claim for it."""
        pod = msgspec.structs.replace(pod, node=node or pod.node)
        self.peers.see((pod.namespace, pod.name), pod)
        self.apply(pod, 1)
        self.placed.append(pod)

    def take_back(self) -> None:
        self.apply(self.placed.pop(), -1)

    def apply(self, pod: Pod, sign: int) -> None:
        self.peers.apply(Charge(claim_of(pod), self.nodes.row(pod.node), pod), sign)

    def row(self, name: str) -> int:
        return self.nodes.rows[name]


def claim_of(pod: Pod) -> Claim:
    return Claim((pod.namespace, pod.name), pod.uid, pod.node, {})


def spec_of(pod: Pod) -> Spec:
    return Spec((pod.namespace, pod.name), pod.namespace, pod.uid, pod.template, owners=pod.owners)


def placed_of(pod: Pod) -> Placed:
    labels = pod.template.labels
    return Placed(
        Peer(pod.namespace, labels, pod.deleting),
        pod.node,
        compile_pod_terms(pod.template.affinity, pod.namespace, labels),
    )


def spread_by_definition(world: World, pod: Pod, placed: Sequence[Pod], node: str) -> Unfit | None:
    hard = compile_spread(pod.template.topology_spread, pod.template.labels).hard
    counts = SpreadCounts(hard, incoming_of(pod.template, pod.namespace), world.nodes.values())
    for each in placed:
        counts.add(placed_of(each).peer, world.nodes[each.node])
    return counts.unfit(world.nodes[node])


def affinity_by_definition(world: World, pod: Pod, placed: Sequence[Pod], node: str) -> Unfit | None:
    mine = placed_of(pod)
    counts = AffinityCounts(mine.peer, mine.terms, world.namespaces)
    for each in placed:
        counts.add(placed_of(each), world.nodes[each.node])
    return counts.unfit(world.nodes[node])


def as_unfit(rejection: Rejection | None) -> Unfit | None:
    if rejection is None:
        return None
    (reason,) = rejection.reasons
    return Unfit(reason, rejection.resolvable)


def check(side: Side, pod: Pod) -> None:
    """Everything that both constraints say of the pod, as things are."""
    world = side.world
    rows = np.array([side.row(name) for name in world.nodes], np.intp)
    for constraint, definition in ((side.spread, spread_by_definition), (side.affinity, affinity_by_definition)):
        query: Any = constraint.prefilter(spec_of(pod))
        assert not isinstance(query, Rejection | Unusable)
        expected = {name: definition(world, pod, side.placed, name) for name in world.nodes}
        if query is None:
            assert set(expected.values()) == {None}
            continue
        mask = constraint.mask(query, rows)
        assert (constraint.mask(query, slice(0, len(side.nodes)))[rows] == mask).all()
        found: dict[str, Unfit | None] = dict.fromkeys(world.nodes)
        for rejected in constraint.rejections(query, rows):
            for name, is_out in zip(world.nodes, rejected.rows.tolist(), strict=True):
                if is_out:
                    assert found[name] is None
                    found[name] = Unfit(rejected.reason, rejected.resolvable)
        for name, fits in zip(world.nodes, mask.tolist(), strict=True):
            assert fits == (expected[name] is None)
            assert constraint.admits(query, side.row(name)) == fits
            assert as_unfit(constraint.filter(query, Target(side.row(name)))) == expected[name] == found[name]


@given(worlds(), st.data())
@settings(max_examples=200, deadline=None)
def test_masks_filters_and_definitions_agree_within_a_batch(world: World, data: st.DataObject) -> None:
    side = Side(world)
    check(side, world.pod)
    names = sorted(world.nodes)
    for number in range(data.draw(st.integers(0, 3))):
        pod = data.draw(st.one_of(st.just(world.pod), pods_of(f"more{number}")))
        pod = msgspec.structs.replace(pod, name=f"more{number}", uid=f"more{number}")
        side.place(pod, data.draw(st.sampled_from(names)))
        check(side, world.pod)
    while len(side.placed) > len(world.pods):
        side.take_back()
        check(side, world.pod)


@given(worlds(), st.data())
@settings(max_examples=200, deadline=None)
def test_filters_under_a_hypothesis_are_those_of_the_world_it_describes(world: World, data: st.DataObject) -> None:
    side = Side(world)
    node = data.draw(st.sampled_from(sorted(world.nodes)))
    there = [
        msgspec.structs.replace(data.draw(pods_of(f"nominated{number}")), deleting=False, node=node)
        for number in range(data.draw(st.integers(0, 2)))
    ]
    for pod in there:
        side.peers.see((pod.namespace, pod.name), msgspec.structs.replace(pod, node=""))
    on_node = [pod for pod in world.pods if pod.node == node]
    gone = [pod for pod in on_node if data.draw(st.booleans())]
    remainder = Claim(("", "r"), "r", node, {}, is_reservation=True)
    hypothesis = Hypothesis((*map(claim_of, gone), remainder), tuple(map(claim_of, there)))
    after = [pod for pod in world.pods if pod not in gone] + there
    for constraint, definition in ((side.spread, spread_by_definition), (side.affinity, affinity_by_definition)):
        query: Any = constraint.prefilter(spec_of(world.pod))
        expected = definition(world, world.pod, after, node)
        if query is None:
            assert expected is None
        else:
            assert as_unfit(constraint.filter(query, Target(side.row(node), hypothesis))) == expected


@given(worlds(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_changed_node_is_judged_by_what_it_is_now(world: World, data: st.DataObject) -> None:
    side = Side(world)
    check(side, world.pod)
    name = data.draw(st.sampled_from(sorted(world.nodes)))
    node = data.draw(nodes_of(name))
    side.nodes.see_node(name, node)
    world.nodes[name] = node
    check(side, world.pod)
    more = data.draw(nodes_of("another"))
    side.nodes.see_node("another", more)
    world.nodes["another"] = more
    check(side, world.pod)


@given(worlds(), st.data())
@settings(max_examples=150, deadline=None)
def test_scores_are_those_of_the_definition(world: World, data: st.DataObject) -> None:
    side = Side(world)
    feasible = data.draw(st.lists(st.sampled_from(sorted(world.nodes)), unique=True, min_size=1))
    rows = np.array([side.row(name) for name in feasible], np.intp)
    pod, placed = world.pod, [placed_of(each) for each in world.pods]
    spread = compile_spread(pod.template.topology_spread, pod.template.labels)
    expected = spread_scores(spread, incoming_of(pod.template, pod.namespace), world.nodes, placed, feasible)
    query = side.spread_score.prescore(spec_of(pod))
    assert (query is None) == (expected is None)
    if query is not None and expected is not None:
        raw = side.spread_score.raw(query, rows)
        assert by_name(feasible, raw) == expected.raw
        assert by_name(feasible, side.spread_score.normalise(query, raw, rows)) == normalise_spread(expected)
    mine = placed_of(pod)
    sums = affinity_scores(mine.peer, mine.terms, world.namespaces, world.nodes, placed, feasible)
    affine = side.affinity_score.prescore(spec_of(pod))
    if affine is None:
        assert sums is None
        return
    raw = side.affinity_score.raw(affine, rows)
    assert by_name(feasible, raw) == (sums or dict.fromkeys(feasible, 0))
    assert by_name(feasible, side.affinity_score.normalise(affine, raw, rows)) == normalise_affinity(
        sums or dict.fromkeys(feasible, 0)
    )


def by_name(names: list[str], amounts: Any) -> dict[str, float]:
    return dict(zip(names, amounts.tolist(), strict=True))


@pytest.mark.parametrize("case", cases("kube-scheduler/inter_pod_affinity_filter"))
def test_affinity_vector(case: dict[str, Any]) -> None:
    side = Side(read_world(case["given"]))
    assert answers(side.affinity, side) == case["expect"]["nodes"]


@pytest.mark.parametrize("case", cases("kube-scheduler/topology_spread_filter"))
def test_spread_vector(case: dict[str, Any]) -> None:
    side = Side(read_world(case["given"]), case["given"])
    assert answers(side.spread, side) == case["expect"]["nodes"]


@pytest.mark.parametrize("case", cases("kube-scheduler/topology_spread_score"))
def test_spread_score_vector(case: dict[str, Any]) -> None:
    side = Side(read_world(case["given"]), case["given"])
    query = side.spread_score.prescore(spec_of(side.world.pod))
    if case["expect"].get("skipped"):
        assert query is None
        return
    assert query is not None
    feasible = case["given"].get("feasibleNodes", list(side.world.nodes))
    rows = np.array([side.row(name) for name in feasible], np.intp)
    raw = side.spread_score.raw(query, rows)
    assert by_name(feasible, raw) == case["expect"]["raw"]
    assert by_name(feasible, side.spread_score.normalise(query, raw, rows)) == case["expect"]["scores"]


@pytest.mark.parametrize("case", cases("kube-scheduler/inter_pod_affinity_score"))
def test_affinity_score_vector(case: dict[str, Any]) -> None:
    args = case["given"].get("args", {})
    side = Side(read_world(case["given"]))
    score = InterPodAffinityScore(
        side.affine,
        args.get("hardPodAffinityWeight", HARD_WEIGHT),
        ignore_others=args.get("ignorePreferredTermsOfExistingPods", False),
    )
    query = score.prescore(spec_of(side.world.pod))
    if case["expect"].get("skipped"):
        assert query is None
        return
    assert query is not None
    feasible = case["given"].get("feasibleNodes", list(side.world.nodes))
    rows = np.array([side.row(name) for name in feasible], np.intp)
    raw = score.raw(query, rows)
    assert by_name(feasible, raw) == case["expect"]["raw"]
    assert by_name(feasible, score.normalise(query, raw, rows)) == case["expect"]["scores"]


def test_the_quotient_of_affinity_is_taken_first() -> None:
    """100 * (29/100) is 28.999..., as the reference has it."""
    side = world_of(builders.pod("incoming"), [])
    query: Any = None
    raw = np.array([0.0, 29.0, 100.0])
    assert side.affinity_score.normalise(query, raw, np.arange(3)).tolist() == [0, 28, 100]
    assert side.affinity_score.normalise(query, np.array([7.0, 7.0]), np.arange(2)).tolist() == [0, 0]


def answers(constraint: PodTopologySpread | InterPodAffinity, side: Side) -> dict[str, Any]:
    query: Any = constraint.prefilter(spec_of(side.world.pod))
    found: dict[str, Any] = {}
    for name in side.world.nodes:
        rejection = None if query is None else constraint.filter(query, Target(side.row(name)))
        code = "Success"
        if rejection is not None:
            code = "Unschedulable" if rejection.resolvable else "UnschedulableAndUnresolvable"
        found[name] = {"code": code} | ({"reasons": list(rejection.reasons)} if rejection is not None else {})
    return found


# --- what random worlds seldom show -----------------------------------------------------------------------------------


def built(builder: PodBuilder) -> Pod:
    return builder.build(1)


def world_of(waiting: PodBuilder, nodes: list[Node], *placed: PodBuilder) -> Side:
    return Side(World(built(waiting), {node.name: node for node in nodes}, [*map(built, placed)], {}))


def labelled(name: str, **labels: str) -> Node:
    return Node(name=name, uid=name, version=1, labels=labels)


WEB = {"app": "web"}


def test_a_node_that_moves_to_another_domain_is_counted_there() -> None:
    waiting = builders.pod("incoming").label("app", "web").spread("zone", WEB).spread("rack", WEB, max_skew=9)
    nodes = [labelled("n0", zone="a", rack="1"), labelled("n1", zone="b", rack="1"), labelled("n2", zone="b", rack="1")]
    side = world_of(waiting, nodes, builders.pod("there").label("app", "web").on("n0"))
    check(side, side.world.pod)
    for node in (labelled("n1", zone="a", rack="1"), labelled("n0", zone="b", rack="1"), labelled("n0", zone="b")):
        side.nodes.see_node(node.name, node)
        side.world.nodes[node.name] = node
        check(side, side.world.pod)


def test_who_comes_to_a_node_that_does_not_count_changes_no_count() -> None:
    waiting = (
        builders.pod("incoming")
        .label("app", "web")
        .spread("zone", WEB, min_domains=2)
        .template(node_selector={"disk": "ssd"})
    )
    side = world_of(waiting, [labelled("n0", zone="a", disk="ssd"), labelled("n1", zone="b")])
    nominated = built(builders.pod("nominated").label("app", "web"))
    side.peers.see((nominated.namespace, nominated.name), nominated)
    there = claim_of(msgspec.structs.replace(nominated, node="n1"))
    query: Any = side.spread.prefilter(spec_of(side.world.pod))
    # Twice: were they counted, the skew of the domain would be three.
    hypothesis = Hypothesis(there=(there, there))
    assert side.spread.filter(query, Target(side.row("n1"), hypothesis)) is None
    assert side.spread.filter(query, Target(side.row("n0"), Hypothesis(there=(there,)))) is not None


def test_the_first_of_a_group_is_only_first_where_nobody_is_in_any_of_its_domains() -> None:
    """A pod that matches lies in a domain of one key alone."""
    two = Affinity(
        pod_affinity=PodAffinity(
            required_during_scheduling_ignored_during_execution=[
                PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=WEB))
                for key in ("zone", "rack")
            ]
        )
    )
    waiting = builders.pod("incoming").label("app", "web").template(affinity=two)
    nodes = [labelled("n0", zone="a"), labelled("n1", zone="a", rack="1")]
    side = world_of(waiting, nodes, builders.pod("there").label("app", "web").on("n0"))
    check(side, side.world.pod)
    query: Any = side.affinity.prefilter(spec_of(side.world.pod))
    assert not side.affinity.admits(query, side.row("n1"))


def test_a_namespace_that_is_relabelled_is_reached_by_other_terms() -> None:
    team = LabelSelector(match_labels={"team": "a"})
    guard = builders.pod("guard", "other").apart("zone", WEB, namespace_selector=team).on("n0")
    side = world_of(
        builders.pod("incoming").label("app", "web"), [labelled("n0", zone="a"), labelled("n1", zone="b")], guard
    )
    for labels in ({}, {"team": "a"}, {"team": "b"}):
        side.peers.see_namespace("default", labels)
        side.world.namespaces["default"] = labels
        check(side, side.world.pod)
