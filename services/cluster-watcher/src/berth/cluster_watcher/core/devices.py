"""scheduling.koordinator.sh Device: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.cluster_watcher.core.findings import Found, problems_of
from berth.cluster_watcher.core.metadata import carried, identity_of
from berth.contracts import kube, state
from berth.resources.amounts import parse_amounts

DEVICES_MAX: Final = 1024
MINOR_MAX: Final = 2**31 - 1
REASON_MAX: Final = 1024


def device_of(item: kube.Device, version: int) -> state.Device:
    """The devices of a node; one whose minor is no such number is left out and a problem."""
    found: Found = []
    meta, infos = item.metadata, item.spec.devices
    if len(infos) > DEVICES_MAX:
        found.append(("spec.devices", f"has {len(infos)} entries, at most {DEVICES_MAX} are accepted"))
        infos = []
    read = (_info(info, position, found) for position, info in enumerate(infos))
    return state.Device(
        name=identity_of(meta, found).name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
        devices=[info for info in read if info is not None],
        deleting=meta.deletion_timestamp is not None,
        problems=problems_of(found),
    )


def _info(info: kube.DeviceInfo, position: int, found: Found) -> state.DeviceInfo | None:
    path = f"spec.devices[{position}]"
    if not 0 <= info.minor <= MINOR_MAX:
        found.append((f"{path}.minor", f"{info.minor} is not between 0 and {MINOR_MAX}"))
        return None
    amounts, unread = parse_amounts(info.resources, f"{path}.resources")
    found += unread
    return state.DeviceInfo(
        kind=info.type,
        minor=info.minor,
        uuid=info.id,
        healthy=info.health,
        amounts=amounts,
        labels=info.labels or {},
        topology=_topology(info.topology),
        position=position,
        reason=_reason(info.conditions),
    )


def _topology(topology: kube.DeviceTopology | None) -> state.DeviceTopology | None:
    if topology is None:
        return None
    return state.DeviceTopology(
        socket=max(-1, topology.socket_id),
        numa_node=max(-1, topology.node_id),
        pcie=topology.pcie_id,
        bus=topology.bus_id,
    )


def _reason(conditions: list[kube.Condition] | None) -> str:
    """Why the device is not healthy, in a word."""
    said = (each.reason for each in conditions or () if each.type == "Healthy" and each.status == "False")
    return next(said, "")[:REASON_MAX]
