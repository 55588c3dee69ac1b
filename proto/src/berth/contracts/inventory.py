"""INVENTORY: which devices each node has and may be given out, written by device-inventory alone."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem


class DeviceSlot(Part, frozen=True, kw_only=True):
    """A device that can be given out: its minor and its totals, amounts by resource name.

    A GPU has `koordinator.sh/gpu-core` and `koordinator.sh/gpu-memory-ratio` (percent, 100 = whole) and
    `koordinator.sh/gpu-memory` (bytes); a NIC has `koordinator.sh/rdma`, 100 whatever it reports. An unhealthy device,
    or one whose report cannot be trusted, is listed with `healthy=False` and holds what runs on it. `reason` says why
    it is unhealthy in a word, `Cordoned` where its node's annotation says so; empty where nobody says.
    """

    kind: str
    minor: Integer
    healthy: bool = True
    uuid: str = ""
    amounts: dict[str, Integer] = {}
    numa_node: Integer = -1
    pcie: str = ""
    labels: dict[str, str] = {}
    reason: str = ""


class NodeInventory(Message, frozen=True, kw_only=True, tag="nodeinventory.set.v1"):
    """The devices of a node, sorted by kind and minor. `totals` sums the healthy ones by resource name.

    `version` is the resource version of the Device object that this was counted from, written for every version:
    a reader of Devices as well sees whether this is as new. `gpu_model` and `gpu_vendor` repeat its labels.
    """

    node: str
    version: Integer
    devices: list[DeviceSlot] = []
    totals: dict[str, Integer] = {}
    gpu_model: str = ""
    gpu_vendor: str = ""
    problems: list[Problem] = []
