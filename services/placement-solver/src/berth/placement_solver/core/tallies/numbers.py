"""Where somebody holds GPUs by number: kubelet has picked them, or somebody has written no record of which they are."""

from __future__ import annotations

from berth.contracts.ledger import Grant
from berth.placement_solver.core.nodes import Nodes
from berth.rules.devices.kubelet_counts import NUMBER


class NumberTally:
    """See `GrantTally`. How many a holder has is a column of the nodes."""

    name = NUMBER

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def take(self, row: int, grants: tuple[Grant, ...], sign: int) -> None:
        """See `GrantTally`. Nothing is granted."""

    def block(self, row: int, sign: int) -> None:
        """See `GrantTally`."""
        self._nodes.mark_numbered(row, sign)
