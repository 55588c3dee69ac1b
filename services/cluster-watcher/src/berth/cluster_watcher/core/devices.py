"""scheduling.koordinator.sh Device: from the API server's object to what STATE says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from berth.contracts import kube, state
from berth.resources.amounts import parse_amounts
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import carried, identity_of

DEVICES_MAX: Final = 1024
MINOR_MAX: Final = 2**31 - 1
FUNCTIONS_MAX: Final = 1024
"""Virtual functions of one device; PCI Express allows 65,535, hardware that exists has some hundreds."""
BUS_LENGTH_MAX: Final = 64
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
        functions=_functions(info.vf_groups or [], f"{path}.vfGroups", found),
        reason=_reason(info.conditions),
    )


def _functions(groups: list[dict[str, Any]], path: str, found: Found) -> list[state.DeviceFunction]:
    """The virtual functions of all groups; what of them cannot be read is left out and a problem."""
    functions: list[state.DeviceFunction] = []
    for at, group in enumerate(groups):
        labels = group.get("labels") or {}
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            found.append((f"{path}[{at}].labels", "must be an object of texts"))
            continue
        functions += (
            state.DeviceFunction(bus=bus, minor=minor, labels=labels)
            for bus, minor in _listed(group.get("vfs") or [], f"{path}[{at}].vfs", found)
        )
    if len(functions) > FUNCTIONS_MAX:
        found.append((path, f"has {len(functions)} functions, at most {FUNCTIONS_MAX} are accepted"))
        return []
    return functions


def _listed(entries: object, path: str, found: Found) -> Iterator[tuple[str, int]]:
    """Bus address and minor of each."""
    if not isinstance(entries, list):
        found.append((path, "must be a list"))
        return
    for at, entry in enumerate(entries):
        bus = entry.get("busID") if isinstance(entry, dict) else None
        minor = entry.get("minor", -1) if isinstance(entry, dict) else -1
        if not isinstance(bus, str) or not 0 < len(bus) <= BUS_LENGTH_MAX:
            found.append((f"{path}[{at}].busID", f"must be a text of 1 to {BUS_LENGTH_MAX} characters"))
        elif not isinstance(minor, int) or isinstance(minor, bool) or not -1 <= minor <= MINOR_MAX:
            found.append((f"{path}[{at}].minor", f"is not between -1 and {MINOR_MAX}"))
        else:
            yield bus, minor


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
