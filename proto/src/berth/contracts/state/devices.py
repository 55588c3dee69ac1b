"""Devices of nodes."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.state.amounts import Amounts


class DeviceTopology(Part, frozen=True, kw_only=True):
    """Where a device sits; -1 and the empty text mean unknown."""

    socket: Integer = -1
    numa_node: Integer = -1
    pcie: str = ""
    bus: str = ""


class DeviceFunction(Part, frozen=True, kw_only=True):
    """A virtual function of a device, by its bus address. `minor` -1 is none, `labels` are those of its group."""

    bus: str
    minor: Integer = -1
    labels: dict[str, str] = {}


class DeviceInfo(Part, frozen=True, kw_only=True):
    """One device of a node. `position` is its index in the object, for messages about it.

    `reason` is that of its condition `Healthy`, where this says False.
    """

    kind: str
    minor: Integer
    uuid: str = ""
    healthy: bool = False
    amounts: Amounts = {}
    labels: dict[str, str] = {}
    topology: DeviceTopology | None = None
    position: Integer = 0
    functions: list[DeviceFunction] = []
    reason: str = ""


class Device(Message, frozen=True, kw_only=True, tag="device.seen.v1"):
    """The devices that a node's agent reports; `name` is the node's."""

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    devices: list[DeviceInfo] = []
    deleting: bool = False
    problems: list[Problem] = []
