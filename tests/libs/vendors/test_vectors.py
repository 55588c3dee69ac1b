"""The reference cases of reports, hand-offs, containers and admission."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.libs.vendors.fake_probe import FakeProbe
from tests.libs.vendors.of_record import edits_of_record

from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.testing.vectors import cases
from berth.vendors import pci
from berth.vendors.device_files import FOLDER, read_file
from berth.vendors.devices import FoundDevice, Place
from berth.vendors.discovery import discover
from berth.vendors.handing_off import hand_off, judge_lock, lock_value
from berth.vendors.probe import NvmlFacts, NvmlGpu
from berth.vendors.rdma import minor_of
from berth.vendors.registry import REGISTRY
from berth.vendors.report import annotations_of, condition, entry, labels_of, partition_table
from berth.vendors.vendor import Bind, Container, Edits, Given


def of_report(has: str) -> list[Any]:
    return cases("devices/device_report", lambda case: next(k for k in KEYS if k in case["given"]) == has)


KEYS = ("status", "deviceFiles", "nvml", "pci", "driverDirectoryEntries", "ibdev")


def files_of(given: dict[str, Any]) -> FakeProbe:
    nvml = NvmlFacts(
        gpus=tuple(
            NvmlGpu(
                uuid=gpu["uuid"],
                minor=gpu["minor"],
                memory=gpu["memoryTotal"],
                name=f"NVIDIA {given.get('model', '')}",
            )
            for gpu in given.get("nvml", ())
        ),
        driver=given.get("driver", ""),
    )
    files = {f"{FOLDER}/ic-device": json.dumps(given["deviceFiles"])} if "deviceFiles" in given else {}
    return FakeProbe(files, nvml=nvml)


@pytest.mark.parametrize("case", of_report("status"))
def test_condition(case: dict[str, Any]) -> None:
    device = {"vendor": "huawei", "uuid": "u", "minor": "0", "status": case["given"]["status"]}
    (found,) = read_file(json.dumps([device]), "file").devices
    assert condition(found.status) == case["expect"]["condition"]


@pytest.mark.parametrize("case", [*of_report("deviceFiles"), *of_report("nvml")])
def test_report(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    found = discover(files_of(given))
    nics = [
        FoundDevice(
            kind="rdma",
            minor=nic["minor"],
            id=nic["id"],
            amounts=REGISTRY.of("rdma").fixed,  # type: ignore[union-attr]
            place=Place(numa_node=nic["nodeID"], bus=nic["busID"]),
        )
        for nic in given.get("rdma", ())
    ]
    devices = [*found.devices, *nics]
    if "devices" in expect:
        assert [entry(device) for device in devices] == expect["devices"]
    if "labels" in expect:
        assert labels_of(found) == expect["labels"]
    if "annotations" in expect:
        assert annotations_of(found) == expect["annotations"]
    if "partitionTable" in expect:
        assert partition_table(found.devices) == expect["partitionTable"]
    for minor, expected in expect.get("conditionsByMinor", {}).items():
        (device,) = (device for device in devices if device.kind == "gpu" and device.minor == int(minor))
        assert condition(device.status) == expected


@pytest.mark.parametrize("case", of_report("pci"))
def test_pci(case: dict[str, Any]) -> None:
    given, expect = case["given"]["pci"], case["expect"]
    bus = given["path"].rpartition("/")[2]
    folder = f"/sys/bus/pci/devices/{bus}"
    probe = FakeProbe({f"{folder}/numa_node": given["numa_node"]}, {folder: given["path"]})
    place = pci.place(probe, bus)
    assert place is not None
    assert {"nodeID": place.numa_node, "pcieID": place.pcie} == expect


@pytest.mark.parametrize("case", of_report("driverDirectoryEntries"))
def test_driver_directory(case: dict[str, Any]) -> None:
    listed = case["given"]["driverDirectoryEntries"] or ()
    probe = FakeProbe({f"/sys/bus/pci/drivers/nvidia/{name}": "" for name in listed})
    assert pci.bound_to(probe, "nvidia") == case["expect"]["pciAddresses"]


@pytest.mark.parametrize("case", of_report("ibdev"))
def test_ibdev(case: dict[str, Any]) -> None:
    minor, expect = minor_of(case["given"]["ibdev"]), case["expect"]
    assert isinstance(minor, Problem) if expect.get("error") else minor == expect["minor"]


@pytest.mark.parametrize("case", cases("devices/vendor_handoff"))
def test_hand_off(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    namespace, _, pod = given.get("pod", "d/p").partition("/")
    bind = Bind(
        node=given["node"],
        namespace=namespace,
        pod=pod,
        time_ns=int(given["bindTimeUnixNano"]),
        model=given.get("model", ""),
        pod_labels=given.get("podLabels", {}),
        given=tuple(
            Given(
                kind=each.get("deviceType", "gpu"),
                minor=each["minor"],
                id=each.get("id", ""),
                amounts=parse_amounts(each.get("resources"), "resources")[0],
                template=each.get("extension", {}).get("gpuSharedResourceTemplate", ""),
            )
            for each in given["allocations"]
        ),
    )
    written = hand_off(bind, given["vendor"])
    on_node, is_refused = dict(given.get("nodeAnnotations", {})), isinstance(written, Problem)
    if not isinstance(written, Problem) and written.lock:
        there = on_node.get(written.lock, "")
        holder = "/".join(there.split(",")[1:])
        is_refused = not judge_lock(
            written.lock, there, bind, holder_exists=holder in given.get("existingPods", ())
        ).may_take
        if not is_refused:
            on_node[written.lock] = lock_value(bind)
    assert is_refused is expect.get("error", False)
    if "nodeAnnotations" in expect:
        assert on_node == expect["nodeAnnotations"]
    if is_refused:
        return
    assert not isinstance(written, Problem)
    if given.get("complete"):
        assert written.annotations == expect.get("podAnnotations", {})
    else:
        assert expect["podAnnotations"].items() <= written.annotations.items()
    assert written.labels == expect.get("podLabels", {})


@pytest.mark.parametrize("case", cases("devices/container_injection"))
def test_container_injection(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    container = Container(
        pod_uid=given["podUID"],
        name=given["container"],
        pod_labels=given["podLabels"],
        monitors=given["vgpuMonitor"],
    )
    edits = edits_of_record(json.dumps(given["deviceAllocated"]), container, FakeProbe())
    if expect.get("error"):
        assert isinstance(edits, Problem)
        return
    assert isinstance(edits, Edits)
    assert edits.env == expect["env"]
    assert [{"source": m.source, "destination": m.destination} for m in edits.mounts] == expect["mounts"]


@pytest.mark.parametrize("case", cases("node-qos/gpu-env"))
def test_gpu_env(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    provider = given.get("isolation_provider")
    container = Container(
        pod_uid=given["pod_uid"],
        name=given["container"],
        pod_labels={"koordinator.sh/gpu-isolation-provider": provider} if provider else {},
        monitors=given.get("vgpu_monitor", False),
    )
    edits = edits_of_record(given["device_allocated"] or "", container, FakeProbe())
    if expect.get("error"):
        assert isinstance(edits, Problem)
        return
    assert isinstance(edits, Edits)
    assert edits.env == expect["env"]
    assert [[m.source, m.destination] for m in edits.mounts] == expect["mounts"]
