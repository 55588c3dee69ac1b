"""STATE and INVENTORY in any order of arrival and loss: what is published ends as the devices are."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from berth.bus.port import Entry
from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device, DeviceInfo, Node, Synced
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.reconciler import Reconciler, Rules
from berth.device_inventory.views import (
    AgentView,
    InventoryView,
    NetworkView,
    OfferView,
    PodView,
    RuntimeView,
    StateView,
)
from berth.runtime import Moment

STEPS = 120
LISTED = synced_key("devices")


def entry(key: str, value: bytes) -> Entry:
    return Entry(key, value, not value, 1, 0, False, None)


def listed(version: int, *, complete: bool) -> bytes:
    return encode(Synced(kind="devices", version=version, complete=complete))


class Bench:
    """A reconciler whose writes are on their way for a while, with what STATE holds."""

    def __init__(self) -> None:
        self.marked: set[str] = set()
        self.state: dict[str, bytes] = {}
        self.bucket: dict[str, bytes] = {}
        self.on_their_way: list[tuple[str, bytes]] = []
        self.view = StateView(self.marked.add, self.mark_all)
        self.published = InventoryView(self.marked.add)
        agents, pods = AgentView(self.marked.add), PodView(self.marked.add, self.mark_all)
        runtimes, network = RuntimeView(self.marked.add), NetworkView(self.marked.add)
        views = (self.view, self.published, agents, pods, runtimes, network, OfferView(self.marked.add))
        self.reconciler = Reconciler(Rules(), *views, self.mark_all)

    def mark_all(self) -> None:
        self.marked |= set(self.reconciler.names())

    def show(self, key: str, value: bytes) -> None:
        self.state[key] = value
        self.view.apply(entry(key, value))

    def state_begins_anew(self) -> None:
        self.view.reset()
        for key, value in self.state.items():
            if value:
                self.view.apply(entry(key, value))
        self.view.end(1)

    def bucket_begins_anew(self) -> None:
        self.bucket.clear()
        self.on_their_way.clear()
        self.published.reset()
        self.mark_all()

    def arrive(self) -> None:
        key, value = self.on_their_way.pop(0)
        self.bucket[key] = value
        self.published.apply(entry(key, value))

    def decide(self, now: float) -> None:
        if not self.view.is_at_end:
            return
        names = sorted(self.marked)
        self.marked.clear()
        for name in names:
            for write in self.reconciler.reconcile(name, Moment(now, now)).writes:
                self.published.wrote(write.key, write.message)
                self.on_their_way.append((write.key, b"" if write.message is None else encode(write.message)))

    def settle(self) -> dict[str, Any]:
        """Everything is listed and everything arrives; what the bucket holds then."""
        self.show(LISTED, listed(STEPS, complete=True))
        self.view.end(1)
        for second in range(20):
            self.decide(float(STEPS + second))
            while self.on_their_way:
                self.arrive()
        found = {key: decode(value, NodeInventory) for key, value in self.bucket.items() if value}
        return {key: msgspec.structs.replace(inventory, version=0) for key, inventory in found.items()}


def step(bench: Bench, rng: random.Random, number: int) -> None:
    name, draw = rng.choice("xyz"), rng.random()
    if draw < 0.4:
        bench.show(named_key("device", name), b"" if rng.random() < 0.3 else some_device(rng, name, number))
    elif draw < 0.6:
        node = encode(Node(name=name, uid=rng.choice("uv"), version=number))
        bench.show(named_key("node", name), b"" if rng.random() < 0.3 else node)
    elif draw < 0.65:
        bench.show(LISTED, listed(number, complete=rng.random() < 0.7))
    elif draw < 0.67:
        bench.state_begins_anew()
    elif draw < 0.69:
        bench.bucket_begins_anew()
    elif draw < 0.85:
        if bench.on_their_way:
            bench.arrive()
    else:
        bench.view.end(number)
        bench.decide(float(number))


def some_device(rng: random.Random, name: str, version: int) -> bytes:
    devices = [
        DeviceInfo(
            kind=rng.choice(("gpu", "rdma")),
            minor=rng.randrange(3),
            healthy=rng.random() < 0.7,
            amounts={names.GPU_CORE: 100},
            position=place,
        )
        for place in range(rng.randrange(4))
    ]
    return encode(Device(name=name, uid=f"d{rng.randrange(2)}", version=version, devices=devices))


@pytest.mark.parametrize("seed", range(25))
def test_losses_and_late_echoes_end_where_a_fresh_start_does(seed: int) -> None:
    rng = random.Random(seed)
    bench, fresh = Bench(), Bench()
    for number in range(STEPS):
        step(bench, rng, number)
    published = bench.settle()
    for key, value in bench.state.items():
        if value:
            fresh.show(key, value)
    assert published == fresh.settle()
    assert +bench.published.devices == +fresh.published.devices
    assert (bench.published.faulty, bench.published.keys) == (fresh.published.faulty, fresh.published.keys)


def test_a_device_that_a_state_begun_anew_does_not_show_is_withdrawn() -> None:
    """Its deletion was lost with the old bucket: the end of the new one is all that tells it."""
    bench, card = Bench(), DeviceInfo(kind="gpu", minor=0, healthy=True, amounts={names.GPU_CORE: 100})
    for name in ("stays", "goes"):
        bench.show(named_key("device", name), encode(Device(name=name, uid=name, version=1, devices=[card])))
    assert set(bench.settle()) == {named_key("node", "stays"), named_key("node", "goes")}
    del bench.state[named_key("device", "goes")]
    bench.state_begins_anew()
    assert set(bench.settle()) == {named_key("node", "stays")}


def test_counts_of_devices_that_went_with_their_bucket_are_zero() -> None:
    published = InventoryView(lambda _: None)
    fpga = DeviceInfo(kind="fpga", minor=0, healthy=True, amounts={names.FPGA: 100})
    published.put("n", inventory_of(Device(name="n", uid="d", version=1, devices=[fpga])))
    assert dict(published.devices) == {("fpga", True): 1}
    published.reset()
    assert dict(published.devices) == {("fpga", True): 0}, "what is shown of them is said, not left as it was"
