"""What a node says about its devices, beside which there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.rules.devices.partitions import NO_RULES, PartitionRules
from berth.rules.devices.slots import Slot
from berth.rules.devices.vendor_limits import Limit


class NodeDevices(NamedTuple):
    """The devices of a node by type.

    `model` is the key of its NPU templates. `well_planned`: every GPU has its secondary devices, so that they need not
    be looked at before the node is chosen. `sealed` are the PCIe roots by type that their holders keep for themselves.
    `limit` is set where the device plugin reads the choice from annotations that express some only.
    """

    slots: Mapping[str, Sequence[Slot]]
    partitions: PartitionRules = NO_RULES
    model: str = ""
    well_planned: bool = False
    sealed: Mapping[str, frozenset[str]] = {}
    limit: Limit | None = None
