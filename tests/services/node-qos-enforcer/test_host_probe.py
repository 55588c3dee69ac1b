"""The machine as vendors see it: a tree in a folder, never anything outside of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.services.worlds.fake_sys import FakeSys

from berth.contracts import names
from berth.node_qos_enforcer.files import MAX_BYTES
from berth.node_qos_enforcer.host_probe import HostProbe
from berth.vendors.discovery import discover
from berth.vendors.probe import NvmlFacts

FILES = "/var/run/koordlet/xpu-device-infos"


@pytest.fixture
def sys(tmp_path: Path) -> FakeSys:
    return FakeSys(tmp_path / "sys")


def probe_of(sys: FakeSys) -> HostProbe:
    return HostProbe({"/sys": str(sys.root), "/dev": "/dev", FILES: str(sys.root.parent / "xpu")})


def test_files_folders_and_links_are_the_hosts(sys: FakeSys) -> None:
    bus = sys.nic(0, functions=2)
    probe = probe_of(sys)
    assert probe.read(f"/sys/bus/pci/devices/{bus}/vendor") == "0x15b3\n"
    assert set(probe.names("/sys/class/infiniband/mlx5_0/ports") or ()) == {"1"}
    assert probe.resolve(f"/sys/bus/pci/devices/{bus}") == f"/sys/devices/pci0000:3a/0000:3a:00.0/{bus}"
    assert probe.read("/sys/none") is None
    assert probe.names("/sys/none") is None
    assert probe.resolve("/sys/none") is None


def test_device_files_have_numbers_and_others_none(sys: FakeSys) -> None:
    numbers = probe_of(sys).device("/dev/null")
    found = os.stat("/dev/null")
    assert stat.S_ISCHR(found.st_mode)
    assert numbers is not None
    assert (numbers.major, numbers.minor) == (os.major(found.st_rdev), os.minor(found.st_rdev))
    assert probe_of(sys).device("/dev/none") is None
    assert probe_of(sys).device("/dev") is None


@pytest.mark.parametrize("path", ["/etc/passwd", "/sys/../../etc/passwd", "/system", "relative", "", "/sys/a\0b"])
def test_what_is_below_no_root_is_not_there(sys: FakeSys, path: str) -> None:
    probe = probe_of(sys)
    assert (probe.read(path), probe.names(path), probe.resolve(path), probe.device(path)) == (None, None, None, None)


def test_links_that_lead_out_or_round_lead_nowhere(sys: FakeSys, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    sys.link("out", "../outside")
    sys.link("round", "round")
    assert probe_of(sys).resolve("/sys/out") is None
    assert probe_of(sys).resolve("/sys/round") is None
    assert probe_of(sys).read("/sys/round") is None


def test_a_file_without_end_is_not_read(sys: FakeSys) -> None:
    sys.write("huge", "x" * (MAX_BYTES + 1))
    assert probe_of(sys).read("/sys/huge") is None


def test_the_library_is_asked_once_a_look() -> None:
    asked = []

    def facts() -> NvmlFacts:
        asked.append(1)
        return NvmlFacts()

    probe = HostProbe({}, facts)
    assert probe.nvml() == probe.nvml() == NvmlFacts()
    assert len(asked) == 1


def test_vendors_find_their_devices_in_a_tree(sys: FakeSys) -> None:
    bus = sys.nic(3, functions=2, numa="1")
    sys.nic(4)
    sys.port(4, "1: DOWN")
    sys.write("../xpu/huawei", '[{"vendor":"huawei","uuid":"npu-0-0","minor":"0","resources":{"gpu-memory":"32Gi"}}]')
    found = discover(probe_of(sys))
    assert found.problems == ()
    npu, nic, down = found.devices
    assert (npu.kind, npu.minor, npu.id, npu.amounts[names.GPU_MEMORY]) == ("gpu", 0, "npu-0-0", 32 << 30)
    assert (nic.kind, nic.minor, nic.id, nic.is_healthy) == ("rdma", 3, bus, True)
    assert nic.functions == ("0000:13:00.1", "0000:13:00.2")
    assert nic.place is not None
    assert (nic.place.numa_node, nic.place.pcie) == (1, "pci0000:3a")
    assert (down.minor, down.is_healthy) == (4, False)


@pytest.mark.parametrize(
    ("file", "text", "field"),
    [
        ("a", "[{", f"{FILES}/a"),
        ("a", '[{"vendor":"huawei","minor":"-1"}]', f"{FILES}/a[0].minor"),
        ("a", '[{"vendor":"huawei","minor":"99999999999999999999"}]', f"{FILES}/a[0].minor"),
        (
            "a",
            '[{"vendor":"huawei","minor":"1","resources":{"gpu-memory":"-5"}}]',
            f"{FILES}/a[0].resources[gpu-memory]",
        ),
    ],
)
def test_a_malformed_file_is_named_and_the_rest_goes_on(sys: FakeSys, file: str, text: str, field: str) -> None:
    sys.nic(0)
    sys.write(f"../xpu/{file}", text)
    found = discover(probe_of(sys))
    assert [device.kind for device in found.devices] == ["rdma"]
    assert [problem.field for problem in found.problems] == [field]
