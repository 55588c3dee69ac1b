"""What resource scores look at: of each resource what a node offers and what would be requested of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.nodes import AMOUNT_MAX, DEVICE_NAMES, Ints, Nodes
from berth.placement_solver.core.seams import RowArray
from berth.placement_solver.core.tallies.scored import ScoredTally
from berth.rules.node_fit import is_scalar_resource

_PLAIN: Final = frozenset({names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE})


class Asked(NamedTuple):
    """A resource that is scored: its weight among the others, and how much of it the pod asks for."""

    resource: str
    weight: int
    amount: int


def asked_of(weights: Mapping[str, int], requests: Mapping[str, int]) -> tuple[Asked, ...]:
    """The resources that count for a pod: scalar ones only where it asks for them, `pods` and unknown ones never."""
    found = (Asked(name, weight, min(requests.get(name, 0), AMOUNT_MAX)) for name, weight in weights.items())
    return tuple(
        each for each in found if each.resource in _PLAIN or (is_scalar_resource(each.resource) and each.amount > 0)
    )


def offered(nodes: Nodes, resource: str, rows: RowArray) -> Ints:
    """What the nodes offer of a resource. Of devices the plain number that the node shows."""
    if resource in DEVICE_NAMES:
        return np.array([_shown(nodes, resource, row) for row in rows.tolist()], np.int64)
    column = nodes.columns.get(resource)
    return np.zeros(rows.shape, np.int64) if column is None else nodes.allocatable[column, rows]


def requested(nodes: Nodes, tally: ScoredTally, resource: str, rows: RowArray) -> Ints:
    """The sum of what is requested on the nodes, reservations' remainders with it."""
    if resource in DEVICE_NAMES:
        return tally.of_devices(resource, rows)
    column = nodes.columns.get(resource)
    if column is None:
        return np.zeros(rows.shape, np.int64)
    taken: Ints = nodes.allocatable[column, rows] - nodes.free[column, rows]
    return taken


def weights_of(resources: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Resources with their weights, in order; a weight of 0 means 1."""
    return {name: weight or 1 for name, weight in resources}


def _shown(nodes: Nodes, resource: str, row: int) -> int:
    node = nodes.states[row]
    return 0 if node is None else min(node.allocatable.get(resource, 0), AMOUNT_MAX)
