"""Which nodes match a rule is kept, and follows labels and nodes that come and go."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.state import Node
from berth.placement_solver.core.constraints.node_affinity import NodeAffinity, Query
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.rule_masks import FEW
from berth.placement_solver.core.seams import Spec
from berth.testing.builders import pod


def show(nodes: Nodes, name: str, zone: str) -> None:
    offered = {names.CPU: 1000, names.PODS: 9}
    nodes.see_node(name, Node(name=name, uid="u", version=1, allocatable=offered, labels={"zone": zone}))


def asked(constraint: NodeAffinity, zone: str) -> Query:
    template = replace(pod("p").requests(cpu=1).build(1).template, node_selector={"zone": zone})
    query = constraint.prefilter(Spec(("", "p"), "", "u", template))
    assert isinstance(query, Query)
    return query


def test_the_mask_says_what_each_node_says() -> None:
    nodes = Nodes()
    constraint = NodeAffinity(nodes)
    for index in range(FEW + 4):
        show(nodes, f"n{index}", "ab"[index % 2])
    first, same, other = asked(constraint, "a"), asked(constraint, "a"), asked(constraint, "b")

    def check() -> None:
        for query in (first, same, other):
            rows = np.arange(len(nodes))
            expected = [constraint.admits(query, row) for row in rows.tolist()]
            assert constraint.mask(query, slice(0, len(nodes))).tolist() == expected
            assert constraint.mask(query, rows).tolist() == expected
            assert constraint.mask(query, rows[::-1][:FEW]).tolist() == expected[::-1][:FEW]

    check()
    show(nodes, "n0", "b")
    show(nodes, "new", "a")
    check()
    nodes.see_node("n1", None)
    nodes.row("named before it is seen")
    check()
    constraint.mask(first, slice(0, len(nodes)))[:] = True
    check()
