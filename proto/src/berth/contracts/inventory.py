"""INVENTORY: which devices each node has and may be given out, written by device-inventory alone."""

from __future__ import annotations

from berth.contracts.base import Message, Part, Problem


class DeviceSlot(Part, frozen=True, kw_only=True):
    """A device that can be given out: its minor and its totals, amounts by resource name.

    A GPU has `koordinator.sh/gpu-core` and `koordinator.sh/gpu-memory-ratio` (percent, 100 = whole) and
    `koordinator.sh/gpu-memory` (bytes). An unhealthy device is listed with `healthy=False` and holds what runs on it.
    """

    kind: str
    minor: int
    healthy: bool = True
    uuid: str = ""
    amounts: dict[str, int] = {}
    numa_node: int = -1
    pcie: str = ""
    labels: dict[str, str] = {}


class NodeInventory(Message, frozen=True, kw_only=True, tag="inventory.counted.v1"):
    """The devices of a node, sorted by kind and minor. `totals` sums the healthy ones by resource name.

    `version` is the resource version of the Device object behind it; `gpu_model` and `gpu_vendor` repeat its labels.
    """

    node: str
    version: int
    devices: list[DeviceSlot] = []
    totals: dict[str, int] = {}
    gpu_model: str = ""
    gpu_vendor: str = ""
    problems: list[Problem] = []
