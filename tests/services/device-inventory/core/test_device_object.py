"""The Device object that a report makes: what the API server and the protocol want, the same whoever makes it."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec.structs import replace

from berth.cluster_watcher.core.devices import device_of
from berth.contracts import kube, names
from berth.contracts.command import MANAGER
from berth.contracts.node_report import NodeReport, ReportedDevice, ReportedLink
from berth.contracts.state import Device
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.core.device_object import DeviceObject, device_object, is_ours, shows

GI = 1 << 30
GPU = ReportedDevice(
    kind="gpu",
    minor=0,
    id="GPU-0",
    vendor="nvidia",
    model="H100",
    since=1_741_076_000.5,
    amounts={names.GPU_CORE: 100, names.GPU_MEMORY: 80 * GI, names.GPU_MEMORY_RATIO: 100},
    labels={"slot": "0"},
    numa_node=1,
    socket=1,
    pcie="pci0000:80",
    bus="0000:81:00.0",
    module=3,
)
NIC = ReportedDevice(
    kind="rdma",
    minor=2,
    id="0000:09:00.0",
    vendor="rdma",
    amounts={names.RDMA: 100},
    bus="0000:09:00.0",
    functions=["0000:09:00.3", "0000:09:00.2"],
)


def report(*devices: ReportedDevice, **more: Any) -> NodeReport:
    fields: dict[str, Any] = {"parts": {"devices": 7}, "gpu_model": "H100", "gpu_driver": "550.54"}
    return NodeReport(node="n", version=9, devices=list(devices), **fields | more)


def made(*devices: ReportedDevice) -> DeviceObject:
    found = device_object(report(*devices))
    assert found is not None
    return found


def seen(wanted: DeviceObject, **metadata: Any) -> Device:
    """What STATE shows once the API server has it."""
    meta = {
        "name": "n",
        "labels": {**wanted.labels, names.LABEL_MANAGED_BY: MANAGER},
        "annotations": wanted.annotations,
        **metadata,
    }
    body = json.dumps({"metadata": meta, "spec": wanted.spec})
    return device_of(msgspec.json.decode(body, type=kube.Device), 5)


def test_an_object_says_what_was_reported() -> None:
    wanted = made(GPU, NIC)
    gpu, nic = wanted.spec["devices"]
    assert (gpu["type"], gpu["id"], gpu["minor"], gpu["moduleID"], gpu["health"]) == ("gpu", "GPU-0", 0, 3, True)
    assert gpu["topology"] == {"socketID": 1, "nodeID": 1, "pcieID": "pci0000:80", "busID": "0000:81:00.0"}
    assert gpu["resources"][names.GPU_MEMORY] == "80Gi"
    assert gpu["conditions"] == [
        {
            "type": "Healthy",
            "status": "True",
            "reason": "DeviceHealthy",
            "message": "device is healthy",
            "lastTransitionTime": "2025-03-04T08:13:20Z",
        }
    ]
    assert nic["vfGroups"] == [
        {"vfs": [{"minor": -1, "busID": "0000:09:00.2"}, {"minor": -1, "busID": "0000:09:00.3"}]}
    ]
    assert wanted.labels == {
        names.LABEL_GPU_VENDOR: "nvidia",
        names.LABEL_GPU_MODEL: "H100",
        names.LABEL_GPU_DRIVER: "550.54",
    }
    assert wanted.annotations == {names.ANNOTATION_REPORT: "7", names.ANNOTATION_KUBELET_CARDS: "{}"}
    assert made(GPU, NIC) == wanted


def test_what_is_made_comes_back_as_inventory() -> None:
    ill = replace(GPU, minor=1, id="GPU-1", healthy=False, reason="Xid79", message="fallen off the bus")
    inventory = inventory_of(seen(made(GPU, ill, NIC)))
    assert [(slot.kind, slot.minor, slot.healthy, slot.reason) for slot in inventory.devices] == [
        ("gpu", 0, True, ""),
        ("gpu", 1, False, "Xid79"),
        ("rdma", 2, True, ""),
    ]
    assert inventory.totals == {**GPU.amounts, names.RDMA: 100}
    assert inventory.problems == []


def test_linked_accelerators_make_a_partition_table() -> None:
    card = replace(GPU, vendor="huawei", has_links=True, honors_partitions=True)
    cards = [
        replace(card, minor=minor, id=str(minor), links=[ReportedLink(kind="HCCS", peers=[1 - minor])])
        for minor in range(2)
    ]
    wanted = made(*cards)
    assert wanted.labels[names.LABEL_GPU_PARTITION_POLICY] == "Honor"
    table = json.loads(wanted.annotations[names.ANNOTATION_GPU_PARTITIONS])
    assert table == {"2": [{"minors": [0, 1], "gpuLinkType": "HCCS", "allocationScore": 1}]}


@pytest.mark.parametrize(
    "odd",
    [
        {"reason": "-8001", "healthy": False},
        {"reason": "chip error", "healthy": False},
        {"reason": "", "message": "", "healthy": False},
        {"message": "m" * 40_000, "reason": "x" * 5_000, "healthy": False},
        {"since": -1e300},
        {"since": 1e300},
        {"vendor": "two words"},
    ],
)
def test_whatever_an_agent_says_the_api_server_takes_the_object(
    odd: dict[str, Any], device_crd: dict[str, Any]
) -> None:
    wanted = made(replace(GPU, **odd), NIC)
    jsonschema_rs.validate(device_crd, {"spec": wanted.spec})
    assert all(re.fullmatch("[A-Za-z0-9._-]{0,63}", value) for value in wanted.labels.values())


@pytest.fixture(scope="module")
def device_crd() -> dict[str, Any]:
    path = files("berth.contracts") / "crds" / "devices.scheduling.koordinator.sh.json"
    crd = json.loads(path.read_text())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("nothing", [report(), report(GPU, parts={})], ids=["no devices", "not looked at"])
def test_a_report_without_devices_makes_no_object(nothing: NodeReport) -> None:
    assert device_object(nothing) is None


def test_an_object_is_shown_when_it_says_the_same() -> None:
    wanted = made(GPU, NIC)
    assert shows(seen(wanted), wanted)
    assert not shows(seen(wanted, annotations={}), wanted)
    assert not shows(seen(wanted, labels={}), wanted)
    by_hand = json.loads(json.dumps(wanted.spec))
    by_hand["devices"][0]["health"] = False
    assert not shows(seen(wanted._replace(spec=by_hand)), wanted)
    by_hand = json.loads(json.dumps(wanted.spec))
    by_hand["devices"].pop()
    assert not shows(seen(wanted._replace(spec=by_hand)), wanted)


@pytest.mark.parametrize(("labels", "ours"), [({}, False), ({names.LABEL_MANAGED_BY: "Koordinator"}, False)])
def test_an_object_without_our_label_is_another_agents(labels: dict[str, str], ours: bool) -> None:
    assert is_ours(seen(made(GPU), labels=labels)) is ours
    assert is_ours(seen(made(GPU)))
