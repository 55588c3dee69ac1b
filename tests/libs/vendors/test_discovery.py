"""What a machine's files become, and what is wrong with some of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.vendors.fake_probe import FakeProbe, function, together

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.partitions import BUILT_IN, read_table
from berth.vendors import pci
from berth.vendors.device_files import FOLDER, read_file
from berth.vendors.devices import Found, FoundDevice, Status
from berth.vendors.discovery import discover
from berth.vendors.label_value import label_value
from berth.vendors.nvlink import nvlinks
from berth.vendors.probe import NvmlFacts, NvmlGpu
from berth.vendors.report import annotations_of, condition, device_spec, entry, labels_of

GI = 1 << 30
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def card(minor: Any = "0", **more: Any) -> dict[str, Any]:
    return {
        "vendor": "huawei",
        "model": "Ascend-910B",
        "uuid": f"npu-{minor}",
        "minor": minor,
        "resources": {"huawei.com/npu-core": "20", "gpu-memory": "32Gi"},
    } | more


def machine_of(text: str) -> FakeProbe:
    return FakeProbe({f"{FOLDER}/ic-device": text})


def test_bare_names_get_their_prefix() -> None:
    (found,) = discover(machine_of(json.dumps([card()]))).devices
    assert found.amounts == {names.NPU_CORE: 20, names.GPU_MEMORY: 32 * GI, names.GPU_MEMORY_RATIO: 100}
    assert found.is_healthy
    assert found.place is None


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (card("x"), "[1].minor"),
        (card("-1"), "[1].minor"),
        (card(""), "[1].minor"),
        (card(1.5), "[1].minor"),
        (card(True), "[1].minor"),
        (card("99999999999999999999999"), "[1].minor"),
        (card("1", uuid=7), "[1].uuid"),
        (card("1", resources={"gpu-memory": "-1"}), "[1].resources[gpu-memory]"),
        (card("1", resources={"gpu-memory": "lots"}), "[1].resources[gpu-memory]"),
        (card("1", resources={"gpu-core": "101"}), "[1].resources[koordinator.sh/gpu-core]"),
        (card("1", resources={"gpu-memory": "4Pi"}), "[1].resources[koordinator.sh/gpu-memory]"),
        (card("1", resources=[]), "[1].resources"),
        (card("1", topology="near"), "[1].topology"),
        (card("1", topology={"nodeID": "one"}), "[1].topology.nodeID"),
        (card("1", topology={"nodeID": "-2"}), "[1].topology.nodeID"),
        (card("1", topology={"mustHonorPartition": "yes"}), "[1].topology.mustHonorPartition"),
        (card("1", status={"healthy": "false"}), "[1].status.healthy"),
        (card("1", status=[]), "[1].status"),
        (7, "[1]"),
        (None, "[1]"),
    ],
)
def test_a_bad_device_is_named_and_the_others_go_on(bad: Any, field: str) -> None:
    found = discover(machine_of(json.dumps([card("0"), bad, card("2")])))
    assert [device.minor for device in found.devices] == [0, 2]
    assert [problem.field for problem in found.problems] == [f"{FOLDER}/ic-device{field}"]


def test_a_field_that_nobody_knows_is_told_and_the_device_stays() -> None:
    odd = card("0", colour="red", status={"healthy": True, "mood": "good"})
    found = discover(machine_of(json.dumps([odd])))
    assert [device.minor for device in found.devices] == [0]
    assert [problem.field.rpartition("ic-device")[2] for problem in found.problems] == ["[0].colour", "[0].status.mood"]


@pytest.mark.parametrize("text", ["", "[", '[{"minor":"0"', "{}", "7", "[" * 100_000, "\ud800"])
def test_a_torn_file_is_named_and_the_other_files_go_on(text: str) -> None:
    files = {f"{FOLDER}/a": text, f"{FOLDER}/b": json.dumps([card()]), f"{FOLDER}/.b.tmp": "["}
    found = discover(FakeProbe(files))
    assert [device.minor for device in found.devices] == [0]
    assert [problem.field for problem in found.problems] == [f"{FOLDER}/a"]


def test_numbers_are_read_as_numbers() -> None:
    (found,) = read_file(json.dumps([card(3, topology={"nodeID": 1})]), "f").devices
    assert (found.minor, found.place and found.place.numa_node) == (3, 1)


def test_minors_are_in_the_order_of_numbers() -> None:
    found = discover(machine_of(json.dumps([card(str(minor)) for minor in (10, 2, 0)])))
    assert [device.minor for device in found.devices] == [0, 2, 10]


def test_of_devices_with_one_minor_none_is_healthy() -> None:
    found = discover(machine_of(json.dumps([card("0"), card("0", uuid="other"), card("1")])))
    assert [(device.minor, device.is_healthy) for device in found.devices] == [(0, False), (1, True)]
    assert len(found.problems) == 1


def test_a_vendor_of_the_pci_tree_that_no_file_describes_is_told() -> None:
    tree = [
        function("0000:01:00.0", vendor="19e5", product="d801", kind="0x120000"),
        function("0000:02:00.0", vendor="19e5", product="1711", kind="0x030000"),
        function("0000:03:00.0", vendor="cabc", kind="0x120000"),
    ]
    found = discover(together(*tree, machine_of(json.dumps([card(vendor="cambricon")]))))
    assert [problem.message.partition(",")[0] for problem in found.problems] == [
        "1 functions are accelerators of huawei"
    ]


def gpu(minor: int = 0, **more: Any) -> NvmlGpu:
    return NvmlGpu(**({"uuid": f"GPU-{minor}", "minor": minor, "memory": 80 * GI, "name": "NVIDIA H100 80GB"} | more))


def test_an_nvidia_gpu() -> None:
    probe = function("0000:3b:00.0", vendor="10de", kind="0x030200", numa="-1")
    facts = NvmlFacts(gpus=(gpu(bus="00000000:3B:00.0"),), driver="550.54")
    found = discover(together(probe, nvml=facts))
    (device,) = found.devices
    assert entry(device)["topology"] == {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:3a", "busID": "0000:3b:00.0"}
    assert device.place is not None
    assert device.place.switches == ("0000:3a:00.0",)
    assert condition(device.status) is None
    assert labels_of(found)[names.LABEL_GPU_MODEL] == "H100-80GB"
    assert labels_of(found)[names.LABEL_GPU_DRIVER] == "550.54"


def test_gpus_of_several_models_have_no_common_one() -> None:
    found = discover(FakeProbe(nvml=NvmlFacts(gpus=(gpu(0), gpu(1, name="NVIDIA A100")))))
    assert names.LABEL_GPU_MODEL not in labels_of(found)


def linked(*pairs: tuple[int, int], count: int, switched: Collection[int] = ()) -> Found:
    """GPUs on buses of their own, linked by pairs, of which the first one says so."""
    bus = "00000000:{:02X}:00.0".format
    peers = {minor: tuple(bus(other) for one, other in pairs if one == minor) for minor in range(count)}
    gpus = [gpu(at, bus=bus(at), peers=peers[at], is_switched=at in switched) for at in range(count)]
    return discover(FakeProbe(nvml=NvmlFacts(gpus=tuple(gpus))))


def table_of(found: Found) -> dict[int, list[tuple[int, ...]]]:
    table = read_table(annotations_of(found)[names.ANNOTATION_GPU_PARTITIONS])
    assert not isinstance(table, Problem)
    return {size: [each.minors for each in sorted(groups)] for size, groups in sorted(table.items())}


def test_gpus_on_a_switch_have_the_partitions_that_are_known_of_such_machines() -> None:
    found = linked(count=8, switched=range(8))
    assert table_of(found) == {size: [each.minors for each in groups] for size, groups in BUILT_IN.items()}
    assert labels_of(found)[names.LABEL_GPU_PARTITION_POLICY] == "Prefer"


def test_bridges_join_pairs() -> None:
    assert table_of(linked((0, 1), (2, 3), count=5)) == {1: [(0,), (1,), (2,), (3,), (4,)], 2: [(0, 1), (2, 3)]}


def test_a_group_is_linked_each_to_each() -> None:
    """Two fours, each GPU linked across to one of the other four."""
    fours = [pair for four in (range(4), range(4, 8)) for pair in combinations(four, 2)]
    table = table_of(linked(*fours, *((at, at + 4) for at in range(4)), count=8))
    assert table[4] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert table[2] == [(0, 1), (0, 4), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (6, 7)]
    assert 8 not in table


@pytest.mark.parametrize(
    "found", [linked(count=2), linked((0, 7), count=2), linked((0, 0), count=1), linked(count=2, switched=[1])]
)
def test_a_link_to_nobody_is_none(found: Found) -> None:
    assert annotations_of(found) == {}
    assert names.LABEL_GPU_PARTITION_POLICY not in labels_of(found)


@given(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=36), st.sets(st.integers(0, 8)))
def test_every_partition_is_linked_through_and_through(pairs: set[tuple[int, int]], switched: set[int]) -> None:
    joined = {frozenset(pair) for pair in pairs} | {frozenset(pair) for pair in combinations(switched, 2)}
    links = nvlinks({at: {other for one, other in pairs if one == at} for at in range(9)}, switched)
    groups = {tuple(sorted({minor, *link.peers})) for minor, each in links.items() for link in each}
    assert all(frozenset(pair) in joined for group in groups for pair in combinations(group, 2))
    pairs_of_groups = {frozenset(pair) for group in groups for pair in combinations(group, 2)}
    assert {pair for pair in joined if len(pair) == 2} == pairs_of_groups


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (NvmlFacts(gpus=(gpu(xids=(79,)),)), "Xid79"),
        (NvmlFacts(gpus=(gpu(xids=(31, 79)),)), "Xid79"),
        (NvmlFacts(gpus=(gpu(xids=(13, 31, 43, 45, 68, 109)),)), ""),
        (NvmlFacts(gpus=(gpu(),), stray_xids=(62,)), "Xid62"),
        (NvmlFacts(gpus=(gpu(tells_health=False),)), "DeviceHealthCheckNotSupported"),
        (NvmlFacts(gpus=(gpu(is_split=True),)), "MIGMode"),
        (NvmlFacts(gpus=(gpu(is_split=True, xids=(79,)),)), "Xid79"),
    ],
)
def test_health_of_nvidia(facts: NvmlFacts, code: str) -> None:
    (device,) = discover(FakeProbe(nvml=facts)).devices
    assert (device.status.code if device.status else "") == code
    assert device.is_healthy is not bool(code)


@pytest.mark.parametrize(
    ("bad", "field"),
    [(gpu(-1), "minor"), (gpu(1, memory=-5), "memory"), (gpu(1, memory=0), "memory"), (gpu(1, uuid=""), "uuid")],
)
def test_a_bad_gpu_is_named(bad: NvmlGpu, field: str) -> None:
    found = discover(FakeProbe(nvml=NvmlFacts(gpus=(bad, gpu(0)))))
    assert [device.minor for device in found.devices] == [0]
    assert [problem.field for problem in found.problems] == [f"nvml.devices[0].{field}"]


def test_a_gpu_that_fell_off_the_bus_is_told() -> None:
    probe = FakeProbe({"/sys/bus/pci/drivers/nvidia/0000:af:00.0": "", "/sys/bus/pci/drivers/nvidia/bind": ""})
    found = discover(together(probe, nvml=NvmlFacts(gpus=(gpu(bus="0000:3b:00.0"),))))
    assert [problem.field for problem in found.problems] == ["/sys/bus/pci/drivers/nvidia/0000:af:00.0"]


def nic(bus: str = "0000:3b:00.0", name: str = "mlx5_2", state: str = "4: ACTIVE") -> FakeProbe:
    folder = f"/sys/bus/pci/devices/{bus}"
    return together(
        function(bus, vendor="15b3"),
        FakeProbe(
            {
                f"{folder}/infiniband/{name}/node_guid": "",
                f"{folder}/infiniband_verbs/uverbs5/dev": "231:197",
                f"/sys/class/infiniband/{name}/ports/1/state": f"{state}\n",
            }
        ),
    )


def test_a_network_interface_and_its_functions() -> None:
    folder = "/sys/bus/pci/devices/0000:3b:00.0"
    virtual = FakeProbe(
        {f"{folder}/sriov_numvfs": "3\n"},
        {f"{folder}/virtfn{i}": f"/sys/devices/pci0000:3a/0000:3b:0{1 if i == 2 else 0}.{i + 2}" for i in range(3)},
    )
    (device,) = discover(together(nic(), virtual)).devices
    assert (device.kind, device.minor, device.id, device.is_healthy) == ("rdma", 2, "0000:3b:00.0", True)
    assert entry(device)["vfGroups"] == [
        {"vfs": [{"minor": -1, "busID": bus} for bus in ("0000:3b:00.2", "0000:3b:00.3", "0000:3b:01.4")]}
    ]


def test_a_virtual_function_is_no_interface_of_its_own() -> None:
    physfn = FakeProbe(links={"/sys/bus/pci/devices/0000:3b:00.0/physfn": "/sys/devices/pci0000:3a/0000:3b:00.1"})
    assert discover(together(nic(), physfn)).devices == ()


@pytest.mark.parametrize("state", ["1: DOWN", "", "2: INIT"])
def test_a_port_that_is_down_makes_the_interface_unhealthy(state: str) -> None:
    (device,) = discover(nic(state=state)).devices
    assert not device.is_healthy


def test_names_of_interfaces() -> None:
    (renamed,) = discover(nic(name="rocep59s0f0")).devices
    assert renamed.minor == 5
    other = discover(together(nic(), nic("0000:5e:00.0", "irdma0")))
    assert [device.minor for device in other.devices] == [2]
    assert [problem.field for problem in other.problems] == ["/sys/bus/pci/devices/0000:5e:00.0/infiniband"]


def kfd_node(at: int, render: int, vendor: int = 0x1002, unique: int = 0xABC, **more: str) -> FakeProbe:
    folder = f"/sys/class/kfd/kfd/topology/nodes/{at}"
    given = {"vendor_id": str(vendor), "drm_render_minor": str(render), "location_id": str(0x0300), "domain": "0"}
    given |= {"unique_id": str(unique)} | more
    return FakeProbe(
        {
            f"{folder}/gpu_id": "4711\n",
            f"{folder}/name": "gfx942\n",
            f"{folder}/properties": "".join(f"{name} {value}\n" for name, value in given.items()),
            f"{folder}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {64 * GI}\n",
            f"{folder}/mem_banks/1/properties": f"heap_type 0\nsize_in_bytes {512 * GI}\n",
        }
    )


def test_cards_behind_the_compute_driver() -> None:
    cpu = FakeProbe({"/sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0\n"})
    found = discover(together(cpu, kfd_node(1, 128), kfd_node(2, 129)))
    assert [(device.minor, device.id, device.vendor) for device in found.devices] == [
        (0, "0000000000000abc-0", "amd"),
        (1, "0000000000000abc-1", "amd"),
    ]
    assert found.devices[0].amounts[names.GPU_MEMORY] == 64 * GI
    assert labels_of(found)[names.LABEL_GPU_MODEL] == "gfx942"
    (dcu,) = discover(kfd_node(1, 130, vendor=0x1D94)).devices
    assert (dcu.vendor, dcu.minor, dcu.id) == ("hygon", 2, "0000000000000abc")


@pytest.mark.parametrize("more", [{"drm_render_minor": "x"}, {"drm_render_minor": "-1"}, {"location_id": "99999999"}])
def test_a_bad_card_is_named(more: dict[str, str]) -> None:
    found = discover(together(kfd_node(1, 128, **more), kfd_node(2, 129)))
    assert [device.minor for device in found.devices] == [1]
    assert [problem.field for problem in found.problems] == ["/sys/class/kfd/kfd/topology/nodes/1/properties"]


def test_fpgas() -> None:
    folder = "/sys/class/fpga_manager"
    probe = FakeProbe(
        {f"{folder}/fpga0/state": "operating\n", f"{folder}/fpga1/state": "write error\n"},
        {f"{folder}/fpga0/device": "/sys/devices/pci0000:3a/0000:3b:00.0/fpga-mgr"},
    )
    found = discover(probe)
    assert [(d.kind, d.minor, d.id, d.is_healthy) for d in found.devices] == [
        ("fpga", 0, "0000:3b:00.0", True),
        ("fpga", 1, "fpga1", False),
    ]


def test_an_empty_machine_has_nothing() -> None:
    assert discover(FakeProbe()) == Found()
    assert labels_of(Found()) == {}


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/sys/devices/pci0000:36/0000:36:01.0/0000:3b:00.1", "pci0000:36"),
        ("/sys/devices/pci10000:e0/x", "pci10000:e0"),
        ("/sys/devices/platform/x", ""),
    ],
)
def test_root_complex(path: str, root: str) -> None:
    assert pci.root_complex(path) == root


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("3b:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("../../etc", ""),
        ("0000:3b:00.9", ""),
        ("bind", ""),
    ],
)
def test_address(text: str, address: str) -> None:
    assert pci.address(text) == address


@pytest.mark.parametrize("code", ["-8001", "chip error", "0x4", "Err:", "_", "é", "x " * 600])
def test_an_odd_code_becomes_a_reason(code: str) -> None:
    found = discover(machine_of(json.dumps([card(status={"healthy": False, "errCode": code})])))
    (spec,), (problem,) = device_spec(found, {}, "2026-01-01T00:00:00Z")
    (written,) = spec["conditions"]
    assert REASON.fullmatch(written["reason"])
    assert code[:1024] in written["message"]
    assert problem.field == "devices[gpu 0].status.errCode"


@given(st.text(max_size=1500))
def test_every_code_becomes_a_reason(code: str) -> None:
    device = FoundDevice(kind="gpu", minor=0, id="u", status=Status(healthy=False, code=code))
    (spec,), _ = device_spec(Found(devices=(device,)), {}, "2026-01-01T00:00:00Z")
    reason = spec["conditions"][0]["reason"]
    assert REASON.fullmatch(reason)
    assert len(reason) <= 1024


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    found = discover(machine_of(json.dumps([card(status={"healthy": True})])))
    old = {"npu-0": {"status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}}
    (spec,), _ = device_spec(found, old, "2026-01-01T00:00:00Z")
    assert spec["conditions"][0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    old["npu-0"]["status"] = "False"
    (spec,), _ = device_spec(found, old, "2026-01-01T00:00:00Z")
    assert spec["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.fixed_dictionaries({}, optional=dict.fromkeys(card(), JSON) | {"topology": JSON, "status": JSON}),
        max_size=4,
    )
)
def test_no_file_raises(entries: list[Any]) -> None:
    found = discover(machine_of(json.dumps([*entries, card("70")])))
    assert 70 in [device.minor for device in found.devices]
    assert all(problem.field and problem.message for problem in found.problems)


@given(st.text(max_size=100))
def test_every_text_becomes_a_label_value(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", label_value(text))
