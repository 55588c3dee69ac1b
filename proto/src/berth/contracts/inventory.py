"""INVENTORY: which devices each node has and may be given out, written by device-inventory alone."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.state import DeviceFunction

NPU_TEMPLATES = "koordinator-system/gpu-shared-resource-templates"
"""The ConfigMap with the sizes that virtual NPUs may have, as `namespace/name`."""


class DeviceSlot(Part, frozen=True, kw_only=True):
    """A device that can be given out: its minor and its totals, amounts by resource name.

    A GPU has `koordinator.sh/gpu-core` and `koordinator.sh/gpu-memory-ratio` (percent, 100 = whole) and
    `koordinator.sh/gpu-memory` (bytes); a NIC has `koordinator.sh/rdma`, 100 whatever it reports. An unhealthy device,
    or one whose report cannot be trusted, is listed with `healthy=False` and holds what runs on it. `functions` are its
    virtual functions that may be given out, by rising bus address. `reason` says why it is unhealthy in a word,
    `Cordoned` where its node's annotation says so; empty where nobody says.
    """

    kind: str
    minor: Integer
    healthy: bool = True
    uuid: str = ""
    amounts: dict[str, Integer] = {}
    numa_node: Integer = -1
    pcie: str = ""
    labels: dict[str, str] = {}
    functions: list[DeviceFunction] = []
    reason: str = ""


class CardPartition(Part, frozen=True, kw_only=True):
    """GPUs that may be given out together, by minor. A higher `score` is better; `bandwidth` is that of their ring in
    bytes per second, 0: not said; `link` is what connects them.
    """

    minors: list[Integer]
    score: Integer = 0
    bandwidth: Integer = 0
    link: str = ""


class NodeInventory(Message, frozen=True, kw_only=True, tag="nodeinventory.set.v1"):
    """The devices of a node, sorted by kind and minor. `totals` sums the healthy ones by resource name.

    `version` is the resource version of the Device object that this was counted from, written for every version:
    a reader of Devices as well sees whether this is as new. `gpu_model` and `gpu_vendor` repeat its labels.
    `partition_policy` is `Honor` or `Prefer` where the Device has a table of partitions, which are `partitions` in its
    order, none where it cannot be read. Empty: there is no table, and the node's own labels say what holds.
    `kubelet_cards` are the minors of the GPUs that kubelet has picked, by uid of the pod; of a pod that is not in it
    nobody knows which it holds.
    """

    node: str
    version: Integer
    devices: list[DeviceSlot] = []
    totals: dict[str, Integer] = {}
    gpu_model: str = ""
    gpu_vendor: str = ""
    partition_policy: str = ""
    partitions: list[CardPartition] = []
    problems: list[Problem] = []
    kubelet_cards: dict[str, list[Integer]] = {}
