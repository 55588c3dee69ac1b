"""The reference's cases: the tree, what domains take, in which order they come, where a job goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from berth.contracts.base import Problem
from berth.contracts.state import NetworkLayer
from berth.rules.member_order import member_key
from berth.rules.network_topology.capacity import slots_in_order, usable
from berth.rules.network_topology.distribute import Ground, distribute
from berth.rules.network_topology.layers import Layer, layers_of, names_of, path_of
from berth.rules.network_topology.order import in_order
from berth.rules.network_topology.procedure import considered, filled, plan, wanted_of
from berth.rules.network_topology.selector import ranked, scores
from berth.rules.network_topology.spec import GatherRule, must_gather_layer
from berth.rules.network_topology.status import Domains
from berth.rules.network_topology.tree import Ints, Level, Levels, Tree, tree_of
from berth.testing.vectors import cases


def layers(given: dict[str, Any]) -> tuple[Layer, ...] | Problem:
    return layers_of(
        NetworkLayer(
            name=each["topologyLayer"],
            parent=each.get("parentTopologyLayer", ""),
            label_keys=each.get("labelKey") or [],
        )
        for each in given["networkTopologySpec"]
    )


def tree_with(given: dict[str, Any]) -> tuple[Tree, list[dict[str, Any]]]:
    """The tree of a case, and its nodes in the order of the tree."""
    found = layers(given)
    assert not isinstance(found, Problem)
    by_name = {each["name"]: each for each in given["nodes"]}
    paths = {name: path_of(found, name, each.get("labels") or {}) for name, each in by_name.items()}
    tree = tree_of(names_of(found), [(*path, name) for name, path in paths.items() if path is not None])
    return tree, [by_name[name] for name in tree.nodes.names]


def numbers(nodes: list[dict[str, Any]], field: str) -> Ints:
    return np.array([each.get(field, 0) for each in nodes], np.int64)


def rules(listed: list[dict[str, Any]]) -> list[GatherRule]:
    return [GatherRule(each["layer"], each["strategy"], each.get("podCountMultiple", 1)) for each in listed]


@pytest.mark.parametrize("case", cases("gang/topology_tree"))
def test_tree(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    found = layers(given)
    if "error" in expect:
        assert isinstance(found, Problem)
        assert expect["error"] in found.message
        return
    assert not isinstance(found, Problem)
    assert list(names_of(found)) == expect["layers"]
    domains = Domains(found)
    for node in given["nodes"]:
        domains.see(node["name"], node.get("labels") or {})
    assert sorted(domains.outside) == sorted(expect["notInTree"])
    assert domains.detail_status() == expect["detailStatus"]


@pytest.mark.parametrize("case", cases("gang/must_gather_layer"))
def test_must_gather_layer(case: dict[str, Any]) -> None:
    given = case["given"]
    assert must_gather_layer(rules(given["gatherStrategy"]), given["layers"]) == case["expect"]["mustGatherLayer"]


def small_tree(offers: dict[str, int]) -> tuple[Tree, Levels]:
    """Spine s1 with the blocks b1 (n1, n2) and b2 (n3, n4), and what each domain takes."""
    tree = tree_of(
        ("SpineLayer", "BlockLayer", "NodeTopologyLayer"),
        [("s1", "b1", "n1"), ("s1", "b1", "n2"), ("s1", "b2", "n3"), ("s1", "b2", "n4")],
    )
    return tree, [np.array([offers.get(name, 0) for name in level.names], np.int64) for level in tree.levels]


@pytest.mark.parametrize("case", cases("gang/topology_capacity"))
def test_capacity(case: dict[str, Any]) -> None:
    given = case["given"]
    tree, offers = small_tree(given["nodeOffers"])
    found = usable(tree, offers[-1], given["podCountMultiple"])
    named = {
        name: int(amount)
        for level, amounts in zip(tree.levels[1:], found[1:], strict=True)
        for name, amount in zip(level.names, amounts, strict=True)
    }
    assert named == case["expect"]["offers"]


@pytest.mark.parametrize("case", cases("gang/topology_distribute"))
def test_distribute(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    tree, offers = small_tree(given["offers"])
    ground = Ground(tree, offers, tree.sums(offers[-1] * 0))
    found = distribute(ground, 1, 0, given["desired"], given["podCountMultiple"])
    by_name = dict.fromkeys(tree.nodes.names, 0) | {tree.nodes.names[node]: count for node, count in found}
    assert by_name == expect["distribution"]
    assert sum(by_name.values()) == expect["total"]


@pytest.mark.parametrize("case", cases("gang/topology_order"))
def test_order(case: dict[str, Any]) -> None:
    given = case["given"]
    by_name = {each["name"]: each for each in given["domains"]}
    depth_of = {name: len(ancestry(by_name, name)) for name in by_name}
    stories = [sorted(name for name in by_name if depth_of[name] == at) for at in range(max(depth_of.values()) + 1)]
    place = {name: at for story in stories for at, name in enumerate(story)}
    tree = Tree(
        [Level("", story, [place.get(by_name[name].get("parent", ""), -1) for name in story]) for story in stories]
    )

    def levels(field: str) -> Levels:
        return [np.array([by_name[name].get(field, 0) for name in story], np.int64) for story in stories]

    compared = [name for name, each in by_name.items() if each.get("compare")]
    depth = depth_of[compared[0]]
    found = in_order(
        tree,
        depth,
        np.array([place[name] for name in compared]),
        existing=levels("existing"),
        slots=levels("offer"),
        score=levels("score"),
        fewest_first=given["fewestFirst"],
    )
    assert [stories[depth][each] for each in found] == case["expect"]["order"]


def ancestry(by_name: dict[str, Any], name: str) -> list[str]:
    parent = by_name[name].get("parent")
    return [parent, *ancestry(by_name, parent)] if parent else []


@pytest.mark.parametrize("case", cases("gang/topology_placement"))
def test_placement(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    tree, nodes = tree_with(given)
    pods = sorted(given["pods"], key=lambda pod: member_key(pod["name"], None))
    wanted = wanted_of(len(pods), rules(given["gatherStrategy"]), [each.layer for each in tree.levels[1:]])
    slots = slots_in_order([np.array([pod["cpu"] for pod in pods])], [numbers(nodes, "freeCpu")])
    kept = usable(tree, slots, wanted.multiples)
    ground = Ground(tree, kept, tree.sums(numbers(nodes, "existing")), tree.sums(numbers(nodes, "score")))
    counts = plan(ground, wanted)
    assert (counts is not None) == expect["placed"]
    if counts is None:
        assert considered(ground, wanted) == expect["mustGather"]
    else:
        places = [nodes[node]["name"] for node in filled(counts)]
        assert dict(zip([pod["name"] for pod in pods], places, strict=True)) == expect["podToNode"]


@pytest.mark.parametrize("case", cases("gang/selector_rank"))
def test_selector_rank(case: dict[str, Any]) -> None:
    given = case["given"]
    tree, nodes = tree_with(given)
    place = {each["name"]: at for at, each in enumerate(nodes)}
    order = ranked(tree, np.array([place[name] for name in given["candidates"]]), numbers(nodes, "existing"))
    assert {nodes[node]["name"]: rank for rank, node in enumerate(order)} == case["expect"]["rank"]


def test_scores_of_ranks() -> None:
    assert [int(each) for each in scores(6)] == [100, 80, 60, 40, 20, 0]
    assert [int(each) for each in scores(4)] == [100, 67, 34, 0]
    assert [int(each) for each in scores(1)] == [100]
