"""NodePorts: two pods on one node do not bind the same host port."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.contracts.state import HostPort
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    Depends,
    Floats,
    Lacking,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
)
from berth.rules.ports import REASON, read_port

Query = Sequence[HostPort]


class NodePorts:
    """The query is the ports that the pod takes."""

    name = "NodePorts"
    depends = Depends.CAPACITY
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> Query | None:
        """See `Constraint`."""
        return spec.template.host_ports or None

    def mask(self, query: Query, rows: Rows) -> Mask:
        """See `Constraint`."""
        mask = np.ones(len(self._nodes.marked), np.bool_)
        for row in self._nodes.rows_with_ports(query):
            mask[row] = self.admits(query, row)
        found: Mask = mask[rows]
        return found

    def admits(self, query: Query, row: int) -> bool:
        """See `Constraint`."""
        return self._nodes.ports[row].conflict(query) is None

    def filter(self, query: Query, target: Target) -> Rejection | None:
        """See `Constraint`."""
        gone, there = target.hypothesis
        used = self._nodes.ports[target.row]
        if any(claim.ports for claim in (*gone, *there)):
            used = used.copy()
            for claim in gone:
                for port in claim.ports:
                    used.remove(read_port(port))
            for claim in there:
                for port in claim.ports:
                    used.add(read_port(port))
        return None if used.conflict(query) is None else Rejection((REASON,))

    def rejections(self, query: Query, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(REASON, ~self.mask(query, rows))]

    def distance(self, query: Query, rows: RowArray, counts: RowArray) -> Floats:
        """See `Freeable`. A port weighs nothing."""
        return np.where(counts > 1, np.inf, 0.0)

    def lacking(self, query: Query, row: int, count: int) -> Lacking:
        """See `Freeable`."""
        taken = self._nodes.ports[row].conflict(query)
        return (
            Lacking(things=(f"host port {taken.protocol or 'TCP'} {taken.port}",)) if taken is not None else Lacking()
        )

    def shares_node(self, query: Query) -> bool:
        """See `Freeable`."""
        return False
