"""When a node is patched, and with what."""

from typing import Any

from berth.contracts import names
from berth.contracts.state import Device, DeviceInfo, Node
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.count import inventory_of
from berth.vendors.sums import device_sums

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}
LABELS = {names.LABEL_GPU_VENDOR: "nvidia", names.LABEL_GPU_MODEL: "H100"}


def machine(gpus: int, broken: int = 0, **more: Any) -> Device:
    entries = [DeviceInfo(kind="gpu", minor=m, healthy=m >= broken, amounts=WHOLE, position=m) for m in range(gpus)]
    return Device(name="n", uid="d", version=1, devices=entries, **({"labels": LABELS} | more))


def node(**amounts: int) -> Node:
    shown = {f"koordinator.sh/{name.replace('_', '-')}": amount for name, amount in amounts.items()}
    return Node(name="n", uid="u", version=1, labels=LABELS, allocatable=shown | {"cpu": 1}, capacity=shown)


def patched(node: Node, device: Device | None, threshold: float = 0.0) -> dict[str, str | None]:
    inventory = inventory_of(device) if device is not None else None
    patch = node_patch(node, device, inventory, publish_shared=False, threshold=threshold)
    return patch.resources if patch is not None else {}


FULL = {"gpu": 200, "gpu_core": 200, "gpu_memory_ratio": 200, "gpu_memory": 160 * GI}


def test_a_node_that_shows_its_devices_is_left_alone() -> None:
    assert patched(node(**FULL), machine(2)) == {}


def test_capacity_and_allocatable_are_both_compared() -> None:
    half = node(**FULL)
    dropped = Node(name="n", uid="u", version=1, labels=LABELS, allocatable=half.allocatable)
    assert patched(dropped, machine(2)) == {
        names.KOORD_GPU: "200",
        names.GPU_CORE: "200",
        names.GPU_MEMORY_RATIO: "200",
        names.GPU_MEMORY: "160Gi",
    }


def test_one_bad_gpu_is_written_at_once() -> None:
    assert patched(node(**FULL), machine(2, broken=1))[names.GPU_CORE] == "100"
    assert patched(node(**FULL), machine(2, broken=1), threshold=0.5) == {}


def test_names_that_no_longer_apply_go_one_by_one() -> None:
    npus = [DeviceInfo(kind="gpu", minor=0, healthy=True, amounts={names.NPU_CORE: 20, names.GPU_MEMORY: GI})]
    device = Device(name="n", uid="d", version=1, labels={names.LABEL_GPU_VENDOR: "huawei"}, devices=npus)
    assert patched(node(**FULL), device) == {
        names.NPU_CORE: "20",
        names.GPU_MEMORY: "1Gi",
        names.KOORD_GPU: None,
        names.GPU_CORE: None,
        names.GPU_MEMORY_RATIO: None,
    }


def test_everything_is_withdrawn_with_the_device_and_nothing_twice() -> None:
    gone = patched(node(**FULL, rdma=100), None)
    assert set(gone) == {names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.RDMA}
    assert set(gone.values()) == {None}
    assert patched(node(), None) == {}
    assert patched(node(gpu_core=0), None) == {}, "the kubelet's zero is as good as no name"


def test_names_of_device_plugins_are_never_touched() -> None:
    plugin = Node(name="n", uid="u", version=1, allocatable={"nvidia.com/gpu": 8}, capacity={"nvidia.com/gpu": 8})
    assert patched(plugin, None) == {}


def test_labels_follow_the_device_and_outlive_it() -> None:
    bare = Node(name="n", uid="u", version=1, labels={names.LABEL_GPU_MODEL: "A100", "zone": "a"})
    device = machine(1)
    patch = node_patch(bare, device, inventory_of(device), publish_shared=True, threshold=0.0)
    assert patch is not None
    assert patch.labels == LABELS
    assert node_patch(bare, None, None, publish_shared=True, threshold=0.0) is None


def test_the_shared_count_is_of_healthy_gpus_whatever_they_report() -> None:
    assert device_sums(inventory_of(machine(8, broken=3)), publish_shared=True)[names.GPU_SHARED] == 500
    assert names.GPU_SHARED not in device_sums(inventory_of(machine(2, broken=2)), publish_shared=True)
