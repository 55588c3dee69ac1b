"""Rows of nodes that are gone are given to new ones: sums and costs stay those of a view that never knew the old."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.inventory import NodeInventory
from berth.contracts.kube import Taint
from berth.contracts.state import Node, PodTemplate
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.classes import ClassTable
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.facts import facts_of
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.profiles import Profiles
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.shards import foreign_nodes
from berth.testing.builders import GI, gpu_grant, gpu_slots, pod
from berth.transaction.claims import Claim

NAMES = [f"n{index}" for index in range(12)]
TEMPLATES = [
    pod("plain").requests(cpu=700, memory=GI),
    pod("picky").requests(cpu=100).only_on("zone", "a"),
    pod("tolerant").requests(cpu=100).tolerates("dedicated"),
    pod("port").port(80),
    pod("gpu").share(40).requests(cpu=500),
    pod("other").requests({"example.com/thing": 2}),
]


class World:
    """Columns with everything that is kept beside them."""

    def __init__(self) -> None:
        self.nodes = Nodes(capacity=1)
        self.capacity = Capacity(self.nodes, Quotas())
        self.classes = ClassTable(Profiles(facts_of(self.nodes, lambda name: None)))
        self.costs = Costs(self.nodes, Policy())

    def asked(self) -> dict[tuple[str, int], tuple[float, float]]:
        """What a pod of each template costs on each node where it can go, alone and beside the others."""
        found: dict[tuple[str, int], tuple[float, float]] = {}
        for index, template in enumerate(templates()):
            cls = self.classes.of(template, [])
            cost = self.costs.of(cls)
            ranked = self.costs.ranked(cls).values if len(self.nodes) else cost
            for row in np.flatnonzero(np.isfinite(cost)).tolist():
                found[self.nodes.names[row], index] = (float(cost[row]), float(ranked[row]))
        return found

    def sums(self, name: str) -> dict[str, Any]:
        """What is free on a node, and who blocks what."""
        row = self.nodes.rows.get(name)
        if row is None:
            return {}
        free = {resource: int(self.nodes.free[column, row]) for resource, column in self.nodes.columns.items()}
        return {
            "free": {resource: amount for resource, amount in free.items() if amount},
            "slots": [slot for slot in self.nodes.devices.slots["gpu"][row] if any(slot.total) or any(slot.used)],
            "fleet": self.nodes.fleet.whole(np.array([row])).tolist(),
            "unread": int(self.nodes.unreadable[row]),
            "gpus": int(self.nodes.gpu_count[row]),
            "port": self.nodes.ports[row].conflict(pod("x").port(80).build(1).template.host_ports) is not None,
        }


def templates() -> list[PodTemplate]:
    return [each.build(1).template for each in TEMPLATES]


nodes = st.builds(
    lambda cpu, taint, zone: {
        "allocatable": {names.CPU: cpu, names.MEMORY: 16 * GI, names.PODS: 4, "example.com/thing": 3},
        "taints": [Taint(key="dedicated", value="", effect="NoSchedule")] if taint else [],
        "labels": {"zone": zone},
    },
    st.sampled_from([1000, 4000]),
    st.booleans(),
    st.sampled_from(["a", "b"]),
)


@st.composite
def claims(draw: st.DrawFn, where: list[str]) -> Claim:
    kind = draw(st.sampled_from(["pod", "pod", "user", "reservation"]))
    number = draw(st.integers(0, 99))
    return Claim(
        name=("" if kind == "reservation" else "default", f"{kind}{number}"),
        uid="r" if kind == "reservation" else f"{kind}{number}",
        node=draw(st.sampled_from(where)),
        amounts={names.CPU: 100 * draw(st.integers(0, 9)), "example.com/thing": draw(st.integers(0, 1))},
        grants=(gpu_grant(draw(st.integers(0, 1)), draw(st.integers(1, 30))),) if draw(st.booleans()) else (),
        ports=("0.0.0.0/TCP/80",) if kind != "reservation" and draw(st.booleans()) else (),
        reservation="r" if kind == "user" else "",
        is_reservation=kind == "reservation",
        unreadable=("devices",) if kind == "pod" and draw(st.integers(0, 9)) == 0 else (),
    )


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_world_in_which_nodes_come_and_go_is_one_that_begins_with_what_is_left(data: st.DataObject) -> None:
    world = World()
    seen: dict[str, Node] = {}
    counted: dict[str, NodeInventory] = {}
    held: dict[str, Claim] = {}
    for step in range(data.draw(st.integers(1, 30))):
        what = data.draw(st.sampled_from(["node", "node", "gone", "devices", "claim", "claim", "end", "end", "ask"]))
        if what == "node":
            name = data.draw(st.sampled_from(NAMES))
            seen[name] = Node(name=name, uid=f"uid-{step}", version=step, **data.draw(nodes))
            world.nodes.see_node(name, seen[name])
        elif what == "gone" and seen:
            name = data.draw(st.sampled_from(sorted(seen)))
            del seen[name]
            world.nodes.see_node(name, None)
            if data.draw(st.booleans()):
                counted.pop(name, None)
                world.nodes.see_inventory(name, None)
        elif what == "devices":
            name = data.draw(st.sampled_from(NAMES))
            counted.pop(name, None)
            count = data.draw(st.integers(0, 2))
            if count:
                counted[name] = NodeInventory(node=name, version=step, devices=gpu_slots(count))
            world.nodes.see_inventory(name, counted.get(name))
        elif what == "claim":
            claim = data.draw(claims([*sorted(seen), *NAMES]))
            if claim.uid not in held:
                held[claim.uid] = claim
                world.capacity.apply(claim, 1)
        elif what == "end" and held:
            world.capacity.apply(held.pop(data.draw(st.sampled_from(sorted(held)))), -1)
        elif what == "ask":
            world.asked()
    fresh = World()
    for name in seen:
        fresh.nodes.see_node(name, seen[name])
    for name in counted:
        fresh.nodes.see_inventory(name, counted[name])
    for claim in held.values():
        fresh.capacity.apply(claim, 1)
    assert world.asked() == fresh.asked()
    for name in {*seen, *counted, *(claim.node for claim in held.values())}:
        assert world.sums(name) == fresh.sums(name)
    assert {name: row for row, name in enumerate(world.nodes.names)} == world.nodes.rows


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_there_are_no_more_rows_than_nodes_at_one_time(data: st.DataObject) -> None:
    world = World()
    there: set[str] = set()
    held: dict[str, Claim] = {}
    most = 0
    for step in range(60):
        name = f"node-{step}"
        world.nodes.see_node(name, Node(name=name, uid=name, version=1, allocatable={names.PODS: 9}))
        there.add(name)
        if data.draw(st.booleans()):
            held[name] = Claim(("default", name), name, name, {}, (gpu_grant(0),))
            world.capacity.apply(held[name], 1)
        most = max(most, len(there | set(held)))
        assert len(world.nodes) <= most
        for gone in sorted(there):
            if data.draw(st.integers(0, 2)) == 0:
                there.discard(gone)
                world.nodes.see_node(gone, None)
        for ended in sorted(held):
            if data.draw(st.integers(0, 2)) == 0:
                world.capacity.apply(held.pop(ended), -1)
        world.nodes.see_node("never-seen", None)
        world.nodes.see_inventory("never-seen", None)
    assert all(world.nodes.row(name) < most for name in there | set(held))


def test_the_row_of_a_node_is_kept_as_long_as_something_is_on_it() -> None:
    world = World()
    held = Claim(("default", "p"), "p", "old", {names.CPU: 1}, (gpu_grant(0),))
    reserved = Claim(("", "r"), "r", "old", {}, is_reservation=True)

    def new(name: str) -> int:
        world.nodes.see_node(name, Node(name=name, uid=name, version=1))
        return world.nodes.rows[name]

    world.capacity.apply(held, 1)
    world.capacity.apply(reserved, 1)
    world.nodes.see_inventory("old", NodeInventory(node="old", version=1, devices=gpu_slots(1)))
    assert new("a") == 1
    world.nodes.see_inventory("old", None, is_uncounted=True)
    assert new("b") == 2
    world.nodes.see_inventory("old", None)
    assert new("c") == 3
    world.capacity.apply(held, -1)
    assert new("d") == 4
    world.capacity.apply(reserved, -1)
    before = world.nodes.renamed
    assert new("e") == 0
    assert world.nodes.renamed > before
    assert "old" not in world.nodes.rows
    assert world.nodes.devices.slots["gpu"][0] == ()


def test_parts_of_other_solvers_follow_the_names_of_rows(solving: Any) -> None:
    run = solving()
    run.cluster.solvers = ("s1", "s2", "s3")
    for step in range(20):
        run.node(f"node-{step}")
        run.cluster.batch(1)
        expected = foreign_nodes(run.cluster.nodes.names, "s1", run.cluster.solvers)
        assert np.array_equal(run.cluster.solver.costs.foreign, expected)
        run.delete(f"node.node-{step}")
    assert len(run.cluster.nodes) == 1
