"""The list of what the solver knows: constraints, in the order in which the first that rejects a node names the reason.

A new one is a file in `core/constraints`, a law in `core/verify`, and a line here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from berth.contracts.base import Problem
from berth.placement_solver.core.constraints.device_share import DeviceShare
from berth.placement_solver.core.constraints.gpu_partitions import GPUPartitions
from berth.placement_solver.core.constraints.node_affinity import NodeAffinity
from berth.placement_solver.core.constraints.node_name import NodeName
from berth.placement_solver.core.constraints.node_ports import NodePorts
from berth.placement_solver.core.constraints.node_resources_fit import NodeResourcesFit
from berth.placement_solver.core.constraints.node_unschedulable import NodeUnschedulable
from berth.placement_solver.core.constraints.taint_toleration import TaintToleration
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Constraint, Rejection, Spec, Unusable

Asked: TypeAlias = "tuple[Constraint[Any], Any]"
"""A constraint with what is asked of it for some pod."""


class Compiled(NamedTuple):
    """What constraints ask for a pod: `asked` in the order of the registry; what they cannot use; what rules out all
    nodes as things are, by the name of the constraint."""

    asked: tuple[Asked, ...] = ()
    problems: tuple[Problem, ...] = ()
    rejections: tuple[tuple[str, Rejection], ...] = ()


class Registry:
    """Everything over `nodes`. Constraints `of_class` say the same of all pods with one template, and their masks are
    kept; those `of_pod` are asked for each pod anew."""

    def __init__(self, nodes: Nodes) -> None:
        self.device_share = DeviceShare(nodes)
        self.fit = NodeResourcesFit(nodes)
        self.of_class: tuple[Constraint[Any], ...] = (
            NodeUnschedulable(nodes),
            TaintToleration(nodes),
            NodeAffinity(nodes),
            GPUPartitions(nodes),
            NodePorts(nodes),
            self.fit,
            self.device_share,
        )
        self.of_pod: tuple[Constraint[Any], ...] = (NodeName(nodes),)
        order = (
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "GPUPartitions",
            "NodePorts",
            "NodeResourcesFit",
            "DeviceShare",
        )
        self._rank = {name: place for place, name in enumerate(order)}

    def compile_class(self, spec: Spec) -> Compiled:
        """What is asked for all pods like this one."""
        return _compiled(self.of_class, spec)

    def compile_pod(self, spec: Spec) -> Compiled:
        """What is asked for this pod alone."""
        return _compiled(self.of_pod, spec)

    def in_order(self, asked: Iterable[Asked]) -> list[Asked]:
        """In the order in which the first that rejects a node names the reason."""
        return sorted(asked, key=lambda each: self._rank[each[0].name])


def _compiled(constraints: tuple[Constraint[Any], ...], spec: Spec) -> Compiled:
    asked: list[Asked] = []
    problems: list[Problem] = []
    rejections: list[tuple[str, Rejection]] = []
    for constraint in constraints:
        query = constraint.prefilter(spec)
        if isinstance(query, Unusable):
            problems += query.problems
        elif isinstance(query, Rejection):
            rejections.append((constraint.name, query))
        elif query is not None:
            asked.append((constraint, query))
    return Compiled(tuple(asked), tuple(problems), tuple(rejections)) if asked or problems or rejections else _NOTHING


_NOTHING = Compiled()
