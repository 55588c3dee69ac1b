"""Sentences about what became of devices."""

from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.device_inventory.core.changes import changes


def node(*slots: DeviceSlot) -> NodeInventory:
    return NodeInventory(node="n", version=1, devices=list(slots))


def gpu(minor: int, *, healthy: bool = True, uuid: str = "", size: int = 1) -> DeviceSlot:
    return DeviceSlot(kind="gpu", minor=minor, healthy=healthy, uuid=uuid, amounts={"m": size})


def test_every_kind_of_change_is_one_sentence() -> None:
    before = node(gpu(0), gpu(1), gpu(2), gpu(3, healthy=False), gpu(4), gpu(5, uuid="a"))
    after = node(gpu(0), gpu(1, healthy=False), gpu(3), gpu(4, size=2), gpu(5, uuid="b"), gpu(6), gpu(7))
    assert changes(before, after) == [
        "gpu 6, 7 appeared",
        "gpu 2 vanished",
        "gpu 1 became unhealthy",
        "gpu 3 became healthy",
        "gpu 4 changed size",
        "gpu 5 was replaced",
    ]


def test_nothing_new_is_nothing_to_tell() -> None:
    assert changes(node(gpu(0)), node(gpu(0))) == []
    assert changes(None, None) == []


def test_long_lists_are_cut() -> None:
    sentences = changes(node(*map(gpu, range(20))), None)
    assert sentences == [f"gpu {', '.join(map(str, range(16)))} and 4 more vanished"]
