"""From what was found to a Device object: entries of `spec.devices`, labels and annotations.

Entries, conditions and the partition table are Koordinator's, word for word. What the API server would not take (the
reason of a condition has a pattern) is brought into shape last, in `device_spec`, so that one odd error code never
keeps a node's whole inventory from being written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import format_amounts
from berth.vendors.devices import Found, FoundDevice, Status
from berth.vendors.label_value import label_value

HONOR: Final = "Honor"
PREFER: Final = "Prefer"
REASON_MAX: Final = 1024
MESSAGE_MAX: Final = 32_768
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def entry(device: FoundDevice) -> dict[str, Any]:
    """The device in `spec.devices`, without its condition."""
    fields: dict[str, Any] = {
        "type": device.kind,
        "id": device.id,
        "minor": device.minor,
        "health": device.is_healthy,
        "resources": format_amounts(device.amounts),
    }
    if device.module is not None:
        fields["moduleID"] = device.module
    if device.labels:
        fields["labels"] = dict(device.labels)
    if device.place is not None:
        place = device.place
        fields["topology"] = {
            "socketID": place.socket,
            "nodeID": place.numa_node,
            "pcieID": place.pcie,
            "busID": place.bus,
        }
    if device.functions:
        fields["vfGroups"] = [{"vfs": [{"minor": -1, "busID": bus} for bus in sorted(device.functions)]}]
    return fields


def condition(status: Status | None) -> dict[str, str] | None:
    """The Healthy condition without its time, in the vendor's words; None where nobody says anything."""
    if status is None:
        return None
    if status.healthy:
        return {"type": "Healthy", "status": "True", "reason": "DeviceHealthy", "message": "device is healthy"}
    reason, message = status.code or "Unknown", status.message or "device is unhealthy"
    return {"type": "Healthy", "status": "False", "reason": reason, "message": message}


def partition_table(devices: Iterable[FoundDevice]) -> dict[str, list[dict[str, Any]]]:
    """Groups of directly linked devices by their size; each group once, in the order in which it is found."""
    table: dict[str, list[dict[str, Any]]] = {}
    seen: set[tuple[int, ...]] = set()
    for device in devices:
        for link in device.links:
            minors = tuple(sorted({device.minor, *link.peers}))
            if not link.kind or not link.peers or minors in seen:
                continue
            seen.add(minors)
            group = {"minors": list(minors), "gpuLinkType": link.kind, "allocationScore": 1}
            table.setdefault(str(len(minors)), []).append(group)
    return table


def labels_of(found: Found) -> dict[str, str]:
    """Vendor, model and driver of the accelerators, and whether they are given out in partitions only.

    Vendor and policy are the first accelerator's.
    """
    gpus = [device for device in found.devices if device.kind == "gpu"]
    if not gpus:
        return {}
    labels = {
        names.LABEL_GPU_VENDOR: gpus[0].vendor,
        names.LABEL_GPU_MODEL: found.model,
        names.LABEL_GPU_DRIVER: label_value(found.driver),
    }
    if gpus[0].has_links:
        labels[names.LABEL_GPU_PARTITION_POLICY] = HONOR if gpus[0].honors_partitions else PREFER
    return {name: value for name, value in labels.items() if value}


def annotations_of(found: Found) -> dict[str, str]:
    """The partition table, where the first accelerator says how it is linked."""
    gpus = [device for device in found.devices if device.kind == "gpu"]
    table = partition_table(gpus) if gpus and gpus[0].has_links else {}
    return {names.ANNOTATION_GPU_PARTITIONS: msgspec.json.encode(table).decode()} if table else {}


def device_spec(
    found: Found, before: Mapping[str, Mapping[str, str]], time: str
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """`spec.devices` as the API server takes it, and whose conditions had to be changed for that.

    `before` has the Healthy conditions that stand in the object, by device id: one whose status is the same keeps its
    time; `time` is now, RFC 3339.
    """
    entries, problems = [], []
    for device in found.devices:
        fields, raw = entry(device), condition(device.status)
        if raw is not None:
            accepted = _acceptable(raw)
            if accepted["reason"] != raw["reason"]:
                field = f"devices[{device.kind} {device.minor}].status.errCode"
                message = f"{raw['reason'][:80]!r} is no reason of a condition; {accepted['reason']} is written"
                problems.append(Problem(field=field, message=message))
            old = before.get(device.id, {})
            since = old.get("lastTransitionTime", "") if old.get("status") == accepted["status"] else ""
            fields["conditions"] = [{**accepted, "lastTransitionTime": since or time}]
        entries.append(fields)
    return entries, problems


def _acceptable(raw: Mapping[str, str]) -> dict[str, str]:
    """The condition with a reason after the pattern of conditions; what stood there is kept in the message."""
    reason, message = raw["reason"], raw["message"]
    if len(reason) > REASON_MAX or _REASON.fullmatch(reason) is None:
        letters = re.sub(r"[^A-Za-z0-9_,:]", "_", reason)[: REASON_MAX - 4].rstrip(",:")
        message = f"{message} ({reason})"
        reason = letters if letters[:1].isascii() and letters[:1].isalpha() else f"Err_{letters.lstrip('_')}"
    return {**raw, "reason": reason, "message": message[:MESSAGE_MAX]}
