"""The node's report: what was found, bounded, with a version that grows when something is new."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.node_report import NodeReport, ReportedCore, ReportedKubelet
from berth.node_qos_enforcer.core.cpu_report import Cpus
from berth.node_qos_enforcer.core.device_health import followed
from berth.node_qos_enforcer.core.node_report import (
    BYTES_MAX,
    CPUS,
    DEVICES_MAX,
    FUNCTIONS_MAX,
    HELD,
    KUBELET,
    PROBLEMS_MAX,
    Findings,
    report_of,
)
from berth.vendors.devices import Found, FoundDevice, Link, Place, Status

PLACE = Place(numa_node=1, socket=1, pcie="pci0000:80", bus="0000:81:00.0", switches=("0000:80:01.0",))
GPU = FoundDevice(
    kind="gpu",
    minor=3,
    id="GPU-3",
    vendor="nvidia",
    model="H100",
    amounts={"koordinator.sh/gpu-core": 100},
    place=PLACE,
    module=3,
    functions=("0000:81:00.1",),
    links=(Link(kind="HCCS", peers=(0, 1)),),
    has_links=True,
    honors_partitions=True,
)


def report(
    *devices: FoundDevice,
    before: NodeReport | None = None,
    version_min: int = 1_000,
    problems: tuple[Problem, ...] = (),
) -> NodeReport:
    found = Found(devices=devices, driver="550", model="H100", problems=problems)
    healths = followed({}, devices, now_s=5.0, monotonic_s=0.0)
    return report_of("n", Findings(devices=found), healths, before, version_min=version_min)


def test_a_report_has_what_was_found() -> None:
    told = report(GPU)
    assert (told.node, told.version, told.parts) == ("n", 1_000, {"devices": 1_000})
    assert (told.gpu_driver, told.gpu_model) == ("550", "H100")
    (device,) = told.devices
    assert (device.kind, device.minor, device.id, device.vendor, device.model) == ("gpu", 3, "GPU-3", "nvidia", "H100")
    assert (device.numa_node, device.socket, device.pcie) == (1, 1, "pci0000:80")
    assert (device.bus, device.switches, device.module) == ("0000:81:00.0", ["0000:80:01.0"], 3)
    assert device.functions == ["0000:81:00.1"]
    assert [(link.kind, link.peers) for link in device.links] == [("HCCS", [0, 1])]
    assert (device.has_links, device.honors_partitions, device.amounts) == (True, True, GPU.amounts)
    assert (device.healthy, device.reason, device.since) == (True, "", 5.0)
    assert decode(encode(told), NodeReport) == told


def test_an_ill_device_says_why() -> None:
    ill = replace(GPU, status=Status(healthy=False, code="", message=""))
    (device,) = report(ill).devices
    assert (device.healthy, device.reason, device.message) == (False, "Unknown", "")


def test_the_version_grows_when_something_is_new_and_only_then() -> None:
    first = report(GPU)
    assert report(GPU, before=first, version_min=9_000) == first
    second = report(replace(GPU, minor=4), before=first, version_min=9_000)
    assert second.version == 9_000
    third = report(GPU, before=second, version_min=7)
    assert third.version == 9_001, "a clock that went back"


def test_what_is_not_looked_at_says_nothing() -> None:
    told = report_of("n", Findings(), {}, None, version_min=1)
    assert (told.parts, told.devices) == ({}, [])


@pytest.mark.parametrize(
    ("kubelet", "unread", "is_reported"),
    [
        (None, {KUBELET}, False),
        (None, {HELD}, False),
        (ReportedKubelet(cpu_manager="static"), {HELD}, False),
        (ReportedKubelet(cpu_manager="none"), {HELD}, True),
        (None, (), True),
    ],
)
def test_cpus_are_reported_once_it_is_known_which_kubelet_gave_out(
    kubelet: ReportedKubelet | None, unread: set[str], is_reported: bool
) -> None:
    core = ReportedCore(socket=0, core=0, zone=0, cpus="0-1")
    found = Findings(cpus=Cpus((core,), ()), kubelet=kubelet, unread=frozenset(unread))
    told = report_of("n", found, {}, None, version_min=1)
    assert (CPUS in told.parts, bool(told.cores)) == (is_reported, is_reported)
    whole = found._replace(unread=frozenset(), held=(), kubelet=kubelet or ReportedKubelet())
    known = report_of("n", whole, {}, None, version_min=1)
    assert CPUS in report_of("n", found, {}, known, version_min=2).parts, "as it was"


def test_too_many_devices_functions_and_problems_are_cut_and_named() -> None:
    many = [FoundDevice(kind="gpu", minor=minor, id=str(minor)) for minor in range(DEVICES_MAX + 1)]
    told = report(*many)
    assert len(told.devices) == DEVICES_MAX
    assert told.problems == [Problem(field="devices", message="there are 1025; only the first 1024 are reported")]
    functions = tuple(f"0000:01:00.{number}" for number in range(FUNCTIONS_MAX + 5))
    told = report(replace(GPU, functions=functions), replace(GPU, minor=4, id="GPU-4"))
    assert [len(device.functions) for device in told.devices] == [FUNCTIONS_MAX, 0]
    assert [problem.field for problem in told.problems] == ["devices[gpu 3].functions", "devices[gpu 4].functions"]
    told = report(problems=tuple(Problem(field=f"f{n}" * 200, message="m" * 9_999) for n in range(60)))
    assert len(told.problems) == PROBLEMS_MAX
    assert told.problems[-1].message == "11 more"


def test_a_report_fits_a_message_whatever_its_texts_are() -> None:
    labels = {f"label-{number}": "x" * 60 for number in range(64)}
    many = [FoundDevice(kind="gpu", minor=minor, id=f"{minor}" * 90, labels=labels) for minor in range(DEVICES_MAX)]
    told = report(*many)
    assert len(msgspec.json.encode(told)) <= BYTES_MAX
    assert told.devices
    assert "only the first" in told.problems[0].message
    assert report(*many, before=told) == told, "cut in the same place again"


TEXTS = st.text(max_size=40)
DEVICES = st.builds(
    FoundDevice,
    kind=st.sampled_from(["gpu", "rdma", "fpga"]),
    minor=st.integers(-(2**31), 2**31 - 1),
    id=TEXTS,
    vendor=TEXTS,
    amounts=st.dictionaries(TEXTS, st.integers(0, 2**50), max_size=3),
    status=st.none() | st.builds(Status, healthy=st.booleans(), code=TEXTS, message=TEXTS),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
    functions=st.lists(TEXTS, max_size=5).map(tuple),
)


@given(st.lists(DEVICES, max_size=8))
def test_whatever_is_found_a_report_says_it_again_and_can_be_read(devices: list[FoundDevice]) -> None:
    told = report(*devices)
    assert [(each.kind, each.minor) for each in told.devices] == [(each.kind, each.minor) for each in devices]
    assert decode(encode(told), NodeReport) == told
    assert report(*devices, before=told, version_min=5_000) == told


@pytest.mark.parametrize("healthy", [True, False])
def test_a_device_found_well_or_ill_reads_so(healthy: bool) -> None:
    (device,) = report(replace(GPU, status=Status(healthy=healthy, code="x"))).devices
    assert device.healthy is healthy
