"""Who has CPUs of his own and shares of NUMA nodes, and where nobody knows which somebody has."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.ledger import Grant
from berth.placement_solver.core.nodes import Nodes
from berth.rules.records.resource_status import ResourceStatus


class CoresTally:
    """See `GrantTally` and `BesideAmounts`. What it counts is `Nodes.cores`."""

    name = ResourceStatus.name

    def __init__(self, nodes: Nodes) -> None:
        self._cores = nodes.cores

    def take(self, row: int, grants: tuple[Grant, ...], sign: int) -> None:
        """See `GrantTally`; a holder of nothing else."""
        self.take_with(row, {}, grants, sign)

    def take_with(self, row: int, amounts: Mapping[str, int], grants: tuple[Grant, ...], sign: int) -> None:
        """See `BesideAmounts`."""
        self._cores.take(row, amounts, grants, sign)

    def block(self, row: int, sign: int) -> None:
        """See `GrantTally`."""
        self._cores.block(row, sign)
