"""A vendor that nobody has heard of: one class and one line."""

from __future__ import annotations

from tests.libs.vendors.fake_probe import FakeProbe

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.vendor_limits import Limit
from berth.vendors.devices import Found, FoundDevice, Place
from berth.vendors.probe import Probe
from berth.vendors.registry import REGISTRY, Registry
from berth.vendors.vendor import Bind, Container, DeviceNode, Edits, Given, HandOff, Vendor, accepted_of

CELLS = "abacus.example/cells"


class Abacus(Vendor):
    name = "abacus"
    request_sets = accepted_of(names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO)
    summed = (CELLS, names.GPU_MEMORY_RATIO)
    doubled = {"abacus.example/rods": CELLS}
    hands_off = True
    limit = Limit("abacus", devices=1)

    def discover(self, probe: Probe) -> Found:
        devices = [
            FoundDevice(
                kind="gpu",
                minor=int(name.removeprefix("abacus")),
                id=f"ABC-{name}",
                vendor=self.name,
                model="Suanpan",
                amounts={
                    CELLS: int(probe.read(f"/sys/class/abacus/{name}/cells") or 0),
                    **dict.fromkeys((names.GPU_CORE, names.GPU_MEMORY_RATIO), 100),
                },
                place=Place(numa_node=1, pcie="pci0000:00", bus="0000:00:01.0"),
            )
            for name in sorted(probe.names("/sys/class/abacus") or ())
        ]
        return Found(devices=tuple(devices), model="Suanpan")

    def hand_off(self, bind: Bind) -> HandOff | Problem:
        ids = ",".join(each.id for each in bind.given)
        return HandOff(annotations={"abacus.example/given": ids}, lock="abacus.example/lock")

    def edits(self, container: Container, given: tuple[Given, ...], probe: Probe) -> Edits | Problem:
        numbers = [(f"/dev/abacus{each.minor}", probe.device(f"/dev/abacus{each.minor}")) for each in given]
        nodes = tuple(DeviceNode(path=path, major=n.major, minor=n.minor) for path, n in numbers if n is not None)
        return Edits(env={"ABACUS_IDS": ",".join(each.id for each in given)}, nodes=nodes)


VENDORS = Registry((*REGISTRY.vendors, Abacus()))
MACHINE = FakeProbe(
    {"/sys/class/abacus/abacus0/cells": "13", "/sys/class/abacus/abacus1/cells": "17"},
    devices={"/dev/abacus1": (240, 1)},
)
