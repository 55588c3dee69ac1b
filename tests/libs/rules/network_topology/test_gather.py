"""A plan is one that an integer programme finds as well: whether there is one, and how many domains it uses."""

from __future__ import annotations

from typing import NamedTuple

import highspy
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.network_topology.gather import Gathered, Scattered, gather
from berth.rules.network_topology.layers import ROOT
from berth.rules.network_topology.procedure import Wanted
from berth.rules.network_topology.tree import Tree, tree_of


class Instance(NamedTuple):
    """A cluster with what its nodes take, and a gang."""

    layers: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    slots: tuple[int, ...]
    wanted: Wanted


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    depth = draw(st.integers(1, 3))
    layers = (*("top", "middle", "low")[:depth], "node")
    count = draw(st.integers(1, 12))
    names = st.integers(0, 2)
    paths = tuple((*(f"{layer[0]}{draw(names)}" for layer in layers[:-1]), f"n{number:02}") for number in range(count))
    most = draw(st.sampled_from([1, 2, 4, 8]))
    slots = tuple(draw(st.lists(st.integers(0, most), min_size=count, max_size=count)))
    multiples = draw(st.dictionaries(st.sampled_from(layers), st.sampled_from([2, 2, 3, 4]), max_size=2))
    pods = draw(st.integers(1, 16))
    if draw(st.booleans()):
        pods *= max([1, *multiples.values()])
    return Instance(layers, paths, slots, Wanted(pods, draw(st.sampled_from([ROOT, ROOT, *layers])), multiples))


def used_by(tree: Tree, counts: list[tuple[int, int]]) -> list[int]:
    """How many domains of each layer have pods, from the top down."""
    paths = [tree.path(tree.depth, node) for node, count in counts if count]
    return [len({path[: depth + 1] for path in paths}) for depth in range(tree.depth)]


def by_programme(tree: Tree, slots: list[int], wanted: Wanted) -> list[int] | None:
    """The least numbers of domains by an integer programme; None: no plan."""
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.5)
    pods = [solver.addIntegral(0, slots[node]) for node in range(len(slots))]
    solver.addConstr(sum(pods[1:], pods[0] * 1) == wanted.pods)
    paths = [tree.path(tree.depth, node) for node in range(len(slots))]
    base = min(len(slots), wanted.pods) + 1
    objective = []
    for depth in range(tree.depth):
        layer = tree.levels[depth + 1].layer
        domains = sorted({path[: depth + 1] for path in paths})
        used = {domain: solver.addBinary() for domain in domains}
        for domain in domains:
            inside = [pods[node] for node, path in enumerate(paths) if path[: depth + 1] == domain]
            inside_count = sum(inside[1:], inside[0] * 1)
            solver.addConstr(inside_count <= wanted.pods * used[domain])
            multiple = wanted.multiples.get(layer, 1)
            if multiple > 1:
                solver.addConstr(inside_count == multiple * solver.addIntegral(0, wanted.pods))
        terms = list(used.values())
        if layer == wanted.must_layer:
            solver.addConstr(sum(terms[1:], terms[0] * 1) <= 1)
        objective += [each * float(base ** (tree.depth - 1 - depth)) for each in terms]
    solver.minimize(sum(objective[1:], objective[0]))
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = [round(each) for each in solver.getSolution().col_value[: len(slots)]]
    return used_by(tree, list(enumerate(values)))


def multiples_hold(tree: Tree, counts: list[tuple[int, int]], wanted: Wanted) -> bool:
    amounts = np.zeros(len(tree.nodes), np.int64)
    for node, count in counts:
        amounts[node] += count
    return all(
        not (sums % wanted.multiples.get(level.layer, 1)).any()
        for level, sums in zip(tree.levels, tree.sums(amounts), strict=True)
    )


@given(instances())
def test_as_an_integer_programme_does(instance: Instance) -> None:
    tree = tree_of(instance.layers, instance.paths)
    by_node = {path[-1]: count for path, count in zip(instance.paths, instance.slots, strict=True)}
    slots = np.array([by_node[name] for name in tree.nodes.names], np.int64)
    wanted = instance.wanted
    found = gather(tree, slots, wanted, wanted.pods)
    expected = by_programme(tree, [int(each) for each in slots], wanted)
    if isinstance(found, Scattered):
        assert expected is None
        return
    assert found.is_proven
    assert sum(count for _, count in found.counts) == wanted.pods
    assert all(0 < count <= slots[node] for node, count in found.counts)
    assert len({node for node, _ in found.counts}) == len(found.counts)
    assert multiples_hold(tree, found.counts, wanted)
    assert used_by(tree, found.counts) == expected


@given(instances(), st.integers(1, 4))
def test_as_many_as_can_be(instance: Instance, least: int) -> None:
    tree = tree_of(instance.layers, instance.paths)
    slots = np.resize(np.array(instance.slots, np.int64), len(tree.nodes))
    wanted = instance.wanted
    found = gather(tree, slots, wanted, least)
    for pods in range(wanted.pods, least - 1, -1):
        whole = gather(tree, slots, wanted._replace(pods=pods), pods)
        if isinstance(whole, Gathered):
            assert isinstance(found, Gathered)
            assert found.counts == whole.counts
            return
    assert isinstance(found, Scattered)


def test_the_second_domain_is_taken_where_the_tightest_needs_more_blocks() -> None:
    """s1 is tighter and has its six slots in six blocks, s2 has seven in two."""
    blocks = [("s1", f"b{number}", f"n{number}") for number in range(6)]
    blocks += [("s2", "c1", "m1"), ("s2", "c2", "m2")]
    tree = tree_of(("spine", "block", "node"), blocks)
    slots = np.array([4 if name == "m1" else 3 if name == "m2" else 1 for name in tree.nodes.names], np.int64)
    found = gather(tree, slots, Wanted(6), 6)
    assert isinstance(found, Gathered)
    assert used_by(tree, found.counts) == [1, 2, 2]


def test_multiples_hold_above_the_domain_that_is_chosen() -> None:
    """One block takes all six, but then its spine has six, too, and fours are asked for there."""
    tree = tree_of(("spine", "block", "node"), [("s1", "b1", "n1"), ("s2", "b2", "n2")])
    slots = np.full(2, 8, np.int64)
    assert isinstance(gather(tree, slots, Wanted(6, ROOT, {"spine": 4}), 6), Scattered)
    found = gather(tree, slots, Wanted(6, ROOT, {"spine": 4}), 2)
    assert isinstance(found, Gathered)
    assert found.counts == [(0, 4)]
