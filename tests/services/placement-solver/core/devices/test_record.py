"""Inventory messages to slots, grants to the pod's annotation."""

import numpy as np
import pytest

from berth.contracts import names
from berth.contracts.grants import device
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.placement_solver.core.devices import GPU, Slot
from berth.placement_solver.core.devices.fleet import Fleet
from berth.placement_solver.core.devices.rows import UNWRITTEN_MAX, DeviceRows

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


def test_slots_count_holders_and_keep_what_has_gone() -> None:
    inventory = NodeInventory(
        node="n",
        version=3,
        devices=[
            DeviceSlot(kind="gpu", minor=0, amounts=WHOLE, numa_node=1, pcie="pci0000:0b"),
            DeviceSlot(kind="gpu", minor=1, amounts=WHOLE, healthy=False),
            DeviceSlot(kind="dpu", minor=0, amounts={"example.com/dpu": 1}),
        ],
    )
    held = [
        device("gpu", 0, {names.GPU_CORE: 30, names.GPU_MEMORY_RATIO: 30}),
        device("gpu", 0, {names.GPU_CORE: 30}),
        device("gpu", 7, WHOLE),
        device("rdma", 2, {names.RDMA: 1}),
        device("dpu", 0, {"example.com/dpu": 1}),
    ]
    rows = DeviceRows(1)
    rows.append()
    rows.see(0, inventory)
    assert rows.take(0, held, 1)
    first, second, gone = rows.slots["gpu"][0]
    assert (first.minor, first.numa, first.pcie) == (0, 1, "pci0000:0b")
    assert first.free == (40, 70, 80 * GI, 0, 0, 0)
    assert second.free == GPU.zero
    assert (gone.minor, gone.total, gone.used) == (7, GPU.zero, GPU.vector(WHOLE))
    assert rows.slots["rdma"][0][0].used == (1,)
    assert rows.slots["fpga"] == [()]
    rows.see(0, None)
    assert [(slot.minor, slot.total, slot.used) for slot in rows.slots["gpu"][0]] == [
        (0, GPU.zero, GPU.vector({names.GPU_CORE: 60, names.GPU_MEMORY_RATIO: 30})),
        (7, GPU.zero, GPU.vector(WHOLE)),
    ]


def test_who_reads_after_all_nodes_have_come_writes_few(monkeypatch: pytest.MonkeyPatch) -> None:
    count, write = 2 * UNWRITTEN_MAX + 5, Fleet.write
    written: list[int] = []
    card = DeviceSlot(kind="gpu", minor=0, amounts=WHOLE)

    def counted(fleet: Fleet, rows: list[int], slots: list[tuple[Slot, ...]]) -> None:
        written.append(len(rows))
        write(fleet, rows, slots)

    monkeypatch.setattr(Fleet, "write", counted)
    rows = DeviceRows(count)
    for row in range(count):
        rows.append()
        rows.see(row, NodeInventory(node=f"n{row}", version=1, devices=[card]))
    assert np.all(rows.fleet().whole() == 1)
    assert written == [UNWRITTEN_MAX, UNWRITTEN_MAX, 5]
