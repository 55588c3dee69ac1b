"""A vendor that nobody has heard of: one class and one line, from its devices to a container that has them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tests.libs.vendors.abacus import CELLS, MACHINE, VENDORS
from tests.libs.vendors.of_record import edits_of_record

import berth.vendors
from berth.contracts import names
from berth.contracts.state import Device, DeviceInfo, DeviceTopology
from berth.device_inventory.core.count import inventory_of
from berth.resources.amounts import parse_amounts
from berth.rules.gpu_request import ACCEPTED
from berth.vendors.discovery import discover
from berth.vendors.handing_off import hand_off
from berth.vendors.registry import REGISTRY
from berth.vendors.report import device_spec, labels_of
from berth.vendors.sums import device_sums, owned
from berth.vendors.vendor import Bind, Container, DeviceNode, Edits, Given, HandOff, Vendor


def test_the_loop() -> None:
    found = discover(MACHINE, VENDORS)
    assert not found.problems
    assert labels_of(found) == {names.LABEL_GPU_VENDOR: "abacus", names.LABEL_GPU_MODEL: "Suanpan"}
    spec, _ = device_spec(found, {}, "2026-01-01T00:00:00Z")
    device = Device(
        name="n",
        uid="u",
        version=1,
        labels=labels_of(found),
        devices=[
            DeviceInfo(
                kind=each["type"],
                minor=each["minor"],
                uuid=each["id"],
                healthy=each["health"],
                amounts=parse_amounts(each["resources"], "resources")[0],
                topology=DeviceTopology(numa_node=each["topology"]["nodeID"]),
                position=at,
            )
            for at, each in enumerate(spec)
        ],
    )
    inventory = inventory_of(device)
    assert not inventory.problems
    sums = device_sums(inventory, publish_shared=True, registry=VENDORS)
    assert sums == {
        CELLS: 30,
        "abacus.example/rods": 30,
        names.GPU_CORE: 200,
        names.GPU_MEMORY_RATIO: 200,
        names.GPU_SHARED: 200,
    }
    assert sums.keys() <= owned(VENDORS)

    given = Given(kind="gpu", minor=1, id=spec[1]["id"], amounts={CELLS: 17})
    bind = Bind(node="n", namespace="d", pod="p", time_ns=5, given=(given,))
    written = hand_off(bind, inventory.gpu_vendor, VENDORS)
    assert isinstance(written, HandOff)
    assert written.annotations["abacus.example/given"] == "ABC-abacus1"
    assert written.annotations[names.ANNOTATION_GPU_MINORS] == "1"
    assert written.lock == "abacus.example/lock"

    record = '{"gpu":[{"minor":1,"id":"ABC-abacus1","resources":{"abacus.example/cells":"17"}}]}'
    container = Container(pod_uid="u", name="c")
    edits = edits_of_record(record, container, MACHINE, gpu_vendor=inventory.gpu_vendor, registry=VENDORS)
    assert edits == Edits(
        env={"ABACUS_IDS": "ABC-abacus1"}, nodes=(DeviceNode(path="/dev/abacus1", major=240, minor=1),)
    )


def test_without_its_line_it_is_not_there() -> None:
    assert discover(MACHINE).devices == ()
    assert REGISTRY.of("gpu", "abacus") is None
    assert VENDORS.of("gpu", "abacus") is not None


def test_every_vendor_is_listed_once() -> None:
    modules = [import_module(f"berth.vendors.{each.name}") for each in pkgutil.iter_modules(berth.vendors.__path__)]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Vendor) and value is not Vendor
    }
    assert {type(vendor) for vendor in REGISTRY} == classes
    called = [name for vendor in REGISTRY for name in (vendor.name, *vendor.aliases)]
    assert len(called) == len(set(called))


def test_each_accepted_request_is_served_by_somebody_and_nothing_else_is() -> None:
    served = {each for vendor in REGISTRY if vendor.kind == "gpu" for each in vendor.request_sets}
    assert served == set(ACCEPTED)
    ascend, nvidia = REGISTRY.of("gpu", "huawei"), REGISTRY.of("gpu")
    assert ascend is not None
    assert nvidia is not None
    full_card = frozenset({names.NPU_CORE, names.GPU_MEMORY_RATIO})
    assert ascend.serves(full_card)
    assert not nvidia.serves(full_card)
    assert nvidia.serves(frozenset({names.NVIDIA_GPU}))
    assert not ascend.serves(frozenset({names.NVIDIA_GPU}))


def test_the_hand_off_is_on_for_those_whose_plugins_need_it() -> None:
    assert {vendor.name for vendor in REGISTRY if vendor.hands_off} == {"huawei", "cambricon", "metax"}
