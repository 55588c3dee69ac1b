"""Which devices of the nodes are held, and where somebody holds some of which nobody knows the minors."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.ledger import Grant
from berth.placement_solver.core.nodes import Nodes
from berth.rules.records.device_allocated import DeviceAllocated


class DeviceTally:
    """See `GrantTally`. The columns are those of the nodes."""

    name = DeviceAllocated.name

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def take(self, row: int, grants: tuple[Grant, ...], sign: int) -> None:
        """See `GrantTally`."""
        self._nodes.take_devices(row, grants, sign)

    def take_with(self, row: int, amounts: Mapping[str, int], grants: tuple[Grant, ...], sign: int) -> None:
        """See `BesideAmounts`. Of who asks for no vendor's count kubelet does not know that he holds cards."""
        self._nodes.take_devices(row, grants, sign)
        self._nodes.counts.take(row, amounts, grants, sign)

    def block(self, row: int, sign: int) -> None:
        """See `GrantTally`."""
        self._nodes.mark_unread(row, sign)
