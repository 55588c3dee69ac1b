"""What of a Device object is believed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.inventory import CardPartition
from berth.contracts.state import Device, DeviceFunction, DeviceInfo, DeviceTopology
from berth.device_inventory.core.check import AMOUNT_MAX, DEVICES_MAX, PROBLEMS_MAX, check
from berth.device_inventory.core.count import inventory_of

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


def gpu(minor: int, position: int | None = None, **more: Any) -> DeviceInfo:
    values = {"uuid": f"GPU-{minor}", "healthy": True, "amounts": WHOLE} | more
    return DeviceInfo(kind="gpu", minor=minor, position=minor if position is None else position, **values)


def device(*entries: DeviceInfo, **more: Any) -> Device:
    return Device(name="n1", uid="u1", version=7, devices=list(entries), **more)


def fields(checked: Any) -> list[str]:
    return [problem.field for problem in checked.problems]


def test_good_devices_come_sorted_with_their_place() -> None:
    nic = DeviceInfo(kind="rdma", minor=0, healthy=True, amounts={names.RDMA: 1}, position=2)
    there = DeviceTopology(numa_node=1, pcie="pci0000:36")
    inventory = inventory_of(device(nic, gpu(10, position=0), gpu(2, topology=there, labels={"b": "2", "a": "1"})))
    assert [(slot.kind, slot.minor) for slot in inventory.devices] == [("gpu", 2), ("gpu", 10), ("rdma", 0)]
    first = inventory.devices[0]
    assert (first.numa_node, first.pcie, first.uuid, first.amounts) == (1, "pci0000:36", "GPU-2", WHOLE)
    assert inventory.devices[2].amounts == {names.RDMA: 100}
    assert inventory.totals == {**{name: 2 * amount for name, amount in WHOLE.items()}, names.RDMA: 100}
    assert not inventory.problems
    assert (inventory.node, inventory.version) == ("n1", 7)


def test_a_doubled_minor_makes_both_entries_unusable_and_spares_the_rest() -> None:
    checked = check(device(gpu(0), gpu(1, position=1), gpu(1, position=2, uuid="other"), gpu(2, position=3)))
    assert [(slot.minor, slot.healthy) for slot in checked.slots] == [(0, True), (1, False), (2, True)]
    assert fields(checked) == ["spec.devices[1].minor", "spec.devices[2].minor"]


def test_one_id_at_two_minors_makes_both_unusable() -> None:
    checked = check(device(gpu(0, uuid="same"), gpu(1, uuid="same"), gpu(2)))
    assert [slot.healthy for slot in checked.slots] == [False, False, True]
    assert fields(checked) == ["spec.devices[0].id", "spec.devices[1].id"]


def test_one_minor_in_two_kinds_is_fine() -> None:
    checked = check(device(gpu(0), DeviceInfo(kind="rdma", minor=0, uuid="GPU-0", healthy=True, position=1)))
    assert [slot.healthy for slot in checked.slots] == [True, True]
    assert not checked.problems


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (gpu(-1, position=0), "spec.devices[0].minor"),
        (gpu(2**31 - 1, position=0), "spec.devices[0].minor"),
        (replace(gpu(0), kind="GPU"), "spec.devices[0].type"),
        (replace(gpu(0), kind=""), "spec.devices[0].type"),
    ],
)
def test_without_a_kind_or_minor_there_is_no_place_for_it(entry: DeviceInfo, field: str) -> None:
    checked = check(device(entry, gpu(5, position=1)))
    assert [slot.minor for slot in checked.slots] == [5]
    assert fields(checked) == [field]


@pytest.mark.parametrize(
    ("amounts", "field"),
    [
        ({**WHOLE, names.GPU_MEMORY: -1}, f"resources[{names.GPU_MEMORY}]"),
        ({**WHOLE, names.GPU_MEMORY: AMOUNT_MAX + 1}, f"resources[{names.GPU_MEMORY}]"),
        ({**WHOLE, names.GPU_CORE: 101}, f"resources[{names.GPU_CORE}]"),
        ({**WHOLE, names.GPU_MEMORY_RATIO: 1000}, f"resources[{names.GPU_MEMORY_RATIO}]"),
        ({}, "resources"),
        ({names.GPU_CORE: 0}, "resources"),
    ],
)
def test_an_amount_that_cannot_be_makes_the_device_unusable(amounts: dict[str, int], field: str) -> None:
    checked = check(device(gpu(0, amounts=amounts), gpu(1)))
    assert [slot.healthy for slot in checked.slots] == [False, True]
    assert fields(checked) == [f"spec.devices[0].{field}"]


def test_memory_that_differs_within_a_model_is_told_and_used() -> None:
    small = gpu(2, amounts={**WHOLE, names.GPU_MEMORY: 40 * GI})
    labels = {names.LABEL_GPU_MODEL: "A100"}
    checked = check(device(gpu(0), gpu(1), small, labels=labels))
    assert [slot.healthy for slot in checked.slots] == [True, True, True]
    assert fields(checked) == [f"spec.devices[2].resources[{names.GPU_MEMORY}]"]
    assert not check(device(gpu(0), gpu(1), small)).problems, "without a common model they may differ"


def test_what_flattening_could_not_read_makes_its_device_unusable() -> None:
    found = [Problem(field=f"spec.devices[1].resources[{names.GPU_MEMORY}]", message="not a quantity")]
    entries = [gpu(minor, position=minor) for minor in range(12)]
    checked = check(device(*entries, problems=found))
    assert [slot.minor for slot in checked.slots if not slot.healthy] == [1], "and not number 10 or 11"
    assert checked.problems == found


def test_unhealthy_devices_stay_listed_but_out_of_the_totals() -> None:
    inventory = inventory_of(device(gpu(0), gpu(1, healthy=False)))
    assert [slot.healthy for slot in inventory.devices] == [True, False]
    assert inventory.totals == WHOLE
    assert not inventory.problems


def test_older_names_are_read_as_todays() -> None:
    old = {"kubernetes.io/gpu-core": 100, "kubernetes.io/gpu-memory-ratio": 50, names.GPU_MEMORY_RATIO: 100}
    inventory = inventory_of(device(gpu(0, amounts=old), labels={"kubernetes.io/gpu-model": "V100"}))
    assert inventory.devices[0].amounts == {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}
    assert inventory.gpu_model == "V100"


def test_an_absurd_numa_node_is_unknown() -> None:
    checked = check(device(gpu(0, topology=DeviceTopology(numa_node=10**9))))
    assert (checked.slots[0].numa_node, checked.slots[0].healthy) == (-1, True)
    assert fields(checked) == ["spec.devices[0].topology.nodeID"]


def test_lists_have_limits() -> None:
    checked = check(device(*(gpu(minor) for minor in range(DEVICES_MAX + 5))))
    assert len(checked.slots) == DEVICES_MAX
    assert fields(checked) == ["spec.devices"]
    checked = check(device(*(gpu(-1, position=p) for p in range(500))))
    assert len(checked.problems) == PROBLEMS_MAX
    assert checked.problems[-1].message == "451 more problems"


entries = st.builds(
    DeviceInfo,
    kind=st.sampled_from(["gpu", "rdma", "fpga", "tpu"]),
    minor=st.integers(-2, 4),
    uuid=st.sampled_from(["", "a", "b", "c"]),
    healthy=st.booleans(),
    amounts=st.dictionaries(
        st.sampled_from([names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, "example.com/x"]),
        st.integers(-(2**63), 2**63 - 1) | st.integers(0, 100),
    ),
    position=st.just(0),
)


@given(st.lists(entries, max_size=12), st.randoms(use_true_random=False))
def test_anything_gives_unique_bounded_slots_in_any_order(listed: list[DeviceInfo], shuffle: Any) -> None:
    numbered = [replace(entry, position=position) for position, entry in enumerate(listed)]
    inventory = inventory_of(device(*numbered))
    places = [(slot.kind, slot.minor) for slot in inventory.devices]
    assert places == sorted(set(places))
    for slot in inventory.devices:
        assert all(0 <= amount <= AMOUNT_MAX for amount in slot.amounts.values())
        assert slot.amounts.get(names.GPU_CORE, 0) <= 100
        assert not slot.healthy or sum((e.kind, e.minor) == (slot.kind, slot.minor) for e in numbered) == 1
    encode(inventory)
    mixed = list(numbered)
    shuffle.shuffle(mixed)
    other = inventory_of(device(*mixed))
    assert [slot for slot in other.devices if slot.healthy] == [slot for slot in inventory.devices if slot.healthy]
    assert other.totals == inventory.totals


def nic(minor: int, *functions: str, **more: Any) -> DeviceInfo:
    listed = [DeviceFunction(bus=bus, labels={"type": "general"}) for bus in functions]
    return DeviceInfo(kind="rdma", minor=minor, healthy=True, position=minor, functions=listed, **more)


def test_virtual_functions_are_listed_by_address_and_one_of_two_devices_by_none() -> None:
    checked = check(device(nic(0, "0000:01:00.3", "0000:01:00.2"), nic(1, "0000:02:00.2", "0000:01:00.3", "")))
    assert [[each.bus for each in slot.functions] for slot in checked.slots] == [["0000:01:00.2"], ["0000:02:00.2"]]
    assert [slot.healthy for slot in checked.slots] == [True, True]
    assert fields(checked) == [
        "spec.devices[0].vfGroups[busID 0000:01:00.3]",
        "spec.devices[1].vfGroups[busID ]",
        "spec.devices[1].vfGroups[busID 0000:01:00.3]",
    ]
    assert checked.slots[0].functions[0].labels == {"type": "general"}


def test_a_virtual_function_that_could_not_be_read_does_not_make_its_device_unusable() -> None:
    problem = Problem(field="spec.devices[0].vfGroups[0].vfs[1].busID", message="must be a text")
    checked = check(device(nic(0, "0000:01:00.2"), problems=[problem]))
    assert [(slot.healthy, len(slot.functions)) for slot in checked.slots] == [(True, 1)]
    assert checked.problems == [problem]


TABLE = '{"2":[{"minors":[0,1],"gpuLinkType":"NVLink","ringBusBandwidth":"400Gi","allocationScore":1},{"minors":[1]}]}'


def test_the_table_of_partitions_comes_with_the_policy_that_its_device_names() -> None:
    labels = {names.LABEL_GPU_PARTITION_POLICY: "Honor"}
    inventory = inventory_of(device(gpu(0), annotations={names.ANNOTATION_GPU_PARTITIONS: TABLE}, labels=labels))
    assert inventory.partition_policy == "Honor"
    assert inventory.partitions == [CardPartition(minors=[0, 1], score=1, bandwidth=400 << 30, link="NVLink")]
    field = f"metadata.annotations[{names.ANNOTATION_GPU_PARTITIONS}]"
    assert fields(inventory) == [f"{field}[2][1].minors"]
    assert [slot.healthy for slot in inventory.devices] == [True]
    none = inventory_of(device(gpu(0), labels=labels))
    assert (none.partition_policy, none.partitions) == ("", [])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "7",
        '{"two":[]}',
        '{"2":[{"minors":[-1,0]}]}',
        '{"1":[{"minors":[0],"allocationScore":1e99}]}',
        '{"1":[{"minors":[99999999999]}]}',
        '{"1":[{"minors":[0],"allocationScore":99999999999}]}',
        '{"1":[{"minors":[0],"ringBusBandwidth":"1E"}]}',
        "[" * 3000,
    ],
)
def test_a_table_that_cannot_be_used_is_named_and_none_is_there(text: str) -> None:
    inventory = inventory_of(device(gpu(0), annotations={names.ANNOTATION_GPU_PARTITIONS: text}))
    assert (inventory.partition_policy, inventory.partitions) == ("Prefer", [])
    (problem,) = inventory.problems
    assert problem.field.startswith(f"metadata.annotations[{names.ANNOTATION_GPU_PARTITIONS}]")
    assert encode(inventory)
