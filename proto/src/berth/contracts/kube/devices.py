"""Devices of a node (GPUs, NICs) as the agent on it reports them."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.contracts.kube.meta import Condition, Meta, Quantity, View


class DeviceTopology(View, frozen=True, kw_only=True):
    """Where a device sits; -1 and the empty text mean unknown."""

    socket_id: int = msgspec.field(default=-1, name="socketID")
    node_id: int = msgspec.field(default=-1, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class DeviceInfo(View, frozen=True, kw_only=True):
    """spec.devices[] of a Device."""

    type: str = ""
    id: str = ""
    minor: int = 0
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    health: bool = False
    labels: dict[str, str] | None = None
    resources: dict[str, Quantity] | None = None
    topology: DeviceTopology | None = None
    vf_groups: list[dict[str, Any]] | None = None
    conditions: list[Condition] | None = None


class DeviceSpec(View, frozen=True, kw_only=True):
    """spec of a Device."""

    devices: list[DeviceInfo] = []


class Device(View, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 Device; its name is the node's."""

    metadata: Meta
    spec: DeviceSpec = DeviceSpec()
