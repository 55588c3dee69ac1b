"""The Device object of a node, made from its agent's report.

Entries, labels and the partition table are those of the protocol (`berth.vendors.report`), with a condition for healthy
devices as well. What is made follows from the report alone, so that two replicas make the same.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from berth.contracts import names
from berth.contracts.command import MANAGER
from berth.contracts.node_report import NodeReport, ReportedDevice
from berth.contracts.state import Device
from berth.device_inventory.core.kubelet_cards import kubelet_cards
from berth.resources.amounts import parse_amounts
from berth.rules.devices.kubelet_cards import write_kubelet_cards
from berth.rules.times import text_of
from berth.vendors.devices import Found, FoundDevice, Link, Place, Status
from berth.vendors.label_value import label_value
from berth.vendors.report import annotations_of, device_spec, labels_of

API: Final = "scheduling.koordinator.sh/v1alpha1/devices"
PART: Final = "devices"
"""The part of a report that the object is made of."""
NOBODY: Final = write_kubelet_cards({})
LAST_S: Final = 253_402_300_799.0
"""The end of the year 9999, the last one that RFC 3339 can write."""


class DeviceObject(NamedTuple):
    """What the object is to say."""

    spec: dict[str, Any]
    labels: dict[str, str]
    annotations: dict[str, str]


def device_object(report: NodeReport) -> DeviceObject | None:
    """The object; None where the node has no devices, or nobody looks for them."""
    if PART not in report.parts or not report.devices:
        return None
    found = Found(devices=tuple(map(_found, report.devices)), driver=report.gpu_driver, model=report.gpu_model)
    before = {
        each.id: {"status": str(each.healthy), "lastTransitionTime": text_of(max(0.0, min(each.since, LAST_S)))}
        for each in report.devices
    }
    # A reason that the API server would not take is changed here, and is no news: the condition's message has it.
    entries, _ = device_spec(found, before, "")
    labels = {name: label_value(value) for name, value in labels_of(found).items()}
    annotations = {
        **annotations_of(found),
        names.ANNOTATION_REPORT: str(report.parts[PART]),
        names.ANNOTATION_KUBELET_CARDS: write_kubelet_cards(kubelet_cards(report)),
    }
    return DeviceObject({"devices": entries}, labels, annotations)


def is_ours(device: Device) -> bool:
    """Whether the object that is there may be changed: one of another agent never is."""
    return device.labels.get(names.LABEL_MANAGED_BY) == MANAGER


def shows(device: Device, wanted: DeviceObject) -> bool:
    """Whether the object says what it is to say.

    It names the report that it was made from, and the cards that kubelet has picked. What somebody changed by hand
    since then is seen in what is given out: the devices, their health and amounts.
    """
    if device.annotations.get(names.ANNOTATION_REPORT) != wanted.annotations[names.ANNOTATION_REPORT]:
        return False
    cards = names.ANNOTATION_KUBELET_CARDS
    if device.annotations.get(cards, NOBODY) != wanted.annotations[cards]:
        return False
    if any(device.labels.get(name) != value for name, value in wanted.labels.items()):
        return False
    shown = [(each.kind, each.minor, each.uuid, each.healthy, each.amounts) for each in device.devices]
    return shown == [_given(entry) for entry in wanted.spec["devices"]]


def _given(entry: dict[str, Any]) -> tuple[str, int, str, bool, dict[str, int]]:
    return entry["type"], entry["minor"], entry["id"], entry["health"], parse_amounts(entry["resources"], "")[0]


def _found(device: ReportedDevice) -> FoundDevice:
    has_place = device.numa_node >= 0 or device.pcie or device.bus
    place = Place(
        numa_node=device.numa_node,
        socket=device.socket,
        pcie=device.pcie,
        bus=device.bus,
        switches=tuple(device.switches),
    )
    return FoundDevice(
        kind=device.kind,
        minor=device.minor,
        id=device.id,
        vendor=device.vendor,
        model=device.model,
        amounts=device.amounts,
        status=Status(healthy=device.healthy, code=device.reason, message=device.message),
        place=place if has_place else None,
        module=device.module,
        labels=device.labels,
        functions=tuple(device.functions),
        links=tuple(Link(kind=link.kind, peers=tuple(link.peers)) for link in device.links),
        has_links=device.has_links,
        honors_partitions=device.honors_partitions,
    )
