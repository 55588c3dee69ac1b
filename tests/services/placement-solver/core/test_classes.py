"""What classes keep for each node is bounded, and what was dropped is worked out again as it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from berth.contracts import names
from berth.contracts.kube import Taint
from berth.contracts.state import Node
from berth.placement_solver.core.classes import ClassTable, PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.facts import facts_of
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.profiles import Profiles
from berth.testing.builders import pod

NODES = 1000
ONE = NODES * (8 + 1) + 8 * 1024 + 8 * 4
"""Bytes that one class keeps: cost, whether it suits, the ranked copy in whole blocks and its four block minima."""


class World:
    def __init__(self, bytes_max: int) -> None:
        self.nodes = Nodes()
        for index in range(NODES):
            offered = {names.CPU: 1000 + index, names.PODS: 9}
            self.nodes.see_node(f"n{index}", Node(name=f"n{index}", uid="u", version=1, allocatable=offered))
        self.table = ClassTable(Profiles(facts_of(self.nodes, lambda name: None)), bytes_max)
        self.costs = Costs(self.nodes, Policy())
        self.costs.on_rows = self.table.keep

    def use(self, cpu: int) -> PodClass:
        cls = self.table.of(pod("p").requests(cpu=cpu).build(1).template, [])
        self.costs.ranked(cls)
        return cls

    def kept(self) -> list[int]:
        return sorted(cls.requests[names.CPU] for cls in self.table if cls.cost.size)


def test_the_rows_of_the_class_used_longest_ago_are_dropped() -> None:
    world = World(3 * ONE)
    for cpu in (1, 2, 3):
        world.use(cpu)
    assert world.table.rows_bytes == 3 * ONE
    world.use(1)
    world.use(4)
    assert world.kept() == [1, 3, 4]
    assert world.table.rows_bytes == 3 * ONE
    assert all(cls.rows_bytes in (0, ONE) for cls in world.table)


def test_the_class_in_use_keeps_its_rows_however_large_they_are() -> None:
    world = World(1)
    world.use(1)
    world.use(2)
    assert world.kept() == [2]


def test_rows_that_grow_with_the_nodes_are_counted_as_they_are() -> None:
    world = World(3 * ONE)
    for cpu in (1, 2):
        world.use(cpu)
    for index in range(NODES):
        world.nodes.see_node(f"m{index}", Node(name=f"m{index}", uid="u", version=1, allocatable={names.PODS: 9}))
    world.use(1)
    assert world.kept() == [1, 2]
    world.use(2)
    assert world.kept() == [2]
    assert world.table.rows_bytes == sum(cls.rows_bytes for cls in world.table)


def test_a_class_that_leaves_the_table_takes_its_rows_with_it() -> None:
    world = World(1 << 40)
    first = world.use(1)
    for cpu in range(2, 4098):
        world.table.of(pod("p").requests(cpu=cpu).build(1).template, [])
    assert first not in list(world.table)
    assert world.table.rows_bytes == first.rows_bytes == 0


def test_what_was_dropped_is_worked_out_as_it_was() -> None:
    small, large = World(ONE), World(1 << 40)
    for cpu in (1000, 1500, 1000, 1990, 1500):
        for world in (small, large):
            world.nodes.take(cpu % NODES, {names.CPU: 300}, 1)
        few, all_of_it = small.use(cpu), large.use(cpu)
        assert np.array_equal(few.cost, all_of_it.cost)
        assert few.ranked is not None
        assert all_of_it.ranked is not None
        assert np.array_equal(few.ranked.values, all_of_it.ranked.values)


def test_ratings_of_scores_count_and_are_dropped_with_the_rest(solving: Any) -> None:
    run = solving()
    for index in range(3):
        run.node(f"n{index}", taints=[Taint(key="slow", effect="PreferNoSchedule")] if index else [])
    run.pod(pod("a").requests(cpu=1))
    run.round()
    (cls,) = run.cluster.classes
    rated = sum(each.values.nbytes for each in cls.ratings if each.values is not None)
    assert rated > 0
    assert run.cluster.classes.rows_bytes == cls.rows_bytes >= rated
    before = [None if each.values is None else each.values.copy() for each in cls.ratings]
    cls.drop_rows()
    assert cls.rows_bytes == 0
    run.cluster.solver.costs.ranked(cls)
    run.cluster.solver.picker.in_order(cls, cls.cost)
    assert [None if each.values is None else list(each.values) for each in cls.ratings] == [
        None if each is None else list(each) for each in before
    ]


def test_a_solver_counts_what_its_classes_keep(solving: Any) -> None:
    run = solving()
    run.node("n0")
    run.pods([pod("a").requests(cpu=1), pod("b").requests(cpu=2)])
    run.round()
    cluster = run.cluster
    assert cluster.classes.rows_bytes == sum(cls.rows_bytes for cls in cluster.classes) > 0
