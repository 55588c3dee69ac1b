"""Devices of a container, from its pod's annotations and the node's facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.libs.vendors.fake_probe import FakeProbe
from tests.services.node_qos_builders import FACTS, GPU, container, gpu, inventory, pod
from tests.services.worlds.enforcer.inside import KNOWN, edits_of, env_of, wanted

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import CPU, device, one
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.state import DeviceContainer, DeviceFunction, PodTemplate
from berth.node_qos_enforcer.core.inside.cpus import Wanted
from berth.node_qos_enforcer.core.inside.creation import adjustment
from berth.node_qos_enforcer.core.inside.seen import container_seen
from berth.rules.records.binds import annotations_of
from berth.rules.records.seam import Bound
from berth.testing.vectors import cases
from berth.vendors.vendor import Edits


def test_every_container_has_all_devices_unless_something_else_is_said() -> None:
    both = {"gpu": [gpu(0), gpu(1)]}
    assert env_of(pod(devices=both)) == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
    assert env_of(pod(devices=both, containers={})) == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
    shared = pod(devices=both, containers={"init": {"gpu": [gpu(0), gpu(1)]}, "train": {"gpu": [{"minor": 1}]}})
    assert env_of(shared, "init") == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
    assert env_of(shared, "train") == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}1"}
    assert env_of(shared, "sidecar") == {}


def test_a_part_of_a_part_has_limits_of_its_own() -> None:
    label = {names.LABEL_GPU_ISOLATION: "hami-core"}
    of = pod(devices={"gpu": [gpu(0, ratio=60)]}, containers={"main": {"gpu": [gpu(0, ratio=20)]}}, labels=label)
    env = env_of(of)
    assert env["CUDA_DEVICE_MEMORY_LIMIT"] == str(20 << 20)
    assert env["CUDA_DEVICE_SM_LIMIT"] == "20"


def test_each_container_has_what_the_bind_wrote_for_it_and_the_cpus_of_its_pod() -> None:
    asks: dict[str, dict[str, int]] = {
        "train": {names.GPU_CORE: 30, names.GPU_MEMORY_RATIO: 30},
        "serve": {names.GPU_CORE: 70, names.GPU_MEMORY_RATIO: 70},
        "log": {},
    }
    containers = [DeviceContainer(name=name, requests=requests) for name, requests in asks.items()]
    template = PodTemplate(
        requests={names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100},
        device_containers=[*containers, DeviceContainer(name="init", init=True)],
    )
    card = device("gpu", 1, {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 100 << 20})
    grants = (card, one(CPU, "2"), one(CPU, "3"))
    notes = annotations_of(Bound("p", grants, template=template, uuids={("gpu", "1"): f"{GPU}1"}))
    of = pod(qos="LSR", annotations=notes, labels={names.LABEL_GPU_ISOLATION: "hami-core"})
    facts = replace(FACTS, inventory=inventory(0, 1))
    found = {name: env_of(of, name, facts) for name in (*asks, "init")}
    limits = {
        name: (env["CUDA_DEVICE_MEMORY_LIMIT"], env["CUDA_DEVICE_SM_LIMIT"])
        for name, env in found.items()
        if len(env) > 1
    }
    assert limits == {"train": (str(30 << 20), "30"), "serve": (str(70 << 20), "70")}
    assert found["log"] == {}
    assert found["init"] == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}1"}
    assert wanted(of, facts) == Wanted("2-3", -1)


@pytest.mark.parametrize(
    ("devices", "containers", "field"),
    [
        ("{", None, "[scheduling.koordinator.sh/device-allocated]"),
        ({"gpu": [{"minor": -1}]}, None, "[scheduling.koordinator.sh/device-allocated]"),
        ({"gpu": [gpu(0)]}, "{", "[scheduling.berth.sh/container-devices]"),
        (
            {"gpu": [gpu(0)]},
            {"main": {"gpu": [{"minor": 1}]}},
            "[scheduling.berth.sh/container-devices].main.gpu[minor 1]",
        ),
        ({"gpu": [gpu(0, ratio=10)]}, {"main": {"gpu": [gpu(0, ratio=20)]}}, ".main.gpu[minor 0].resources["),
        (
            {"rdma": [{"minor": 0}]},
            {"main": {"rdma": [{"minor": 0, "extension": {"vfs": [{"busID": "x"}]}}]}},
            ".extension.vfs",
        ),
        ({"gpu": [gpu(7)]}, None, ".gpu[minor 7].minor"),
        ({"gpu": [gpu(1, uuid="GPU-another")]}, None, ".gpu[minor 1].id"),
        ({"rdma": [{"minor": 0, "id": "0000:01:00.0"}]}, None, "rdma[minor 0].minor"),
    ],
)
def test_what_cannot_be_had_is_named(devices: Any, containers: Any, field: str) -> None:
    noted = {}
    if isinstance(devices, str):
        noted[names.ANNOTATION_DEVICE_ALLOCATED], devices = devices, None
    if isinstance(containers, str):
        noted[names.ANNOTATION_CONTAINER_DEVICES], containers = containers, None
    of = pod(devices=devices, containers=containers, annotations=noted)
    found = edits_of(of, facts=replace(FACTS, inventory=inventory(0, 1)))
    assert isinstance(found, Problem)
    assert found.field.startswith("pods[work/web].metadata.annotations[")
    assert field in found.field


def test_whose_the_cards_of_an_unknown_node_are_is_not_guessed() -> None:
    found = edits_of(pod(devices={"gpu": [gpu(0)]}), facts=FACTS)
    assert isinstance(found, Problem)
    assert found.field.endswith(".gpu[minor 0].minor")
    assert "not known" in found.message
    assert edits_of(pod(devices={"fpga": [{"minor": 0}]}), facts=FACTS) == Edits(), "its kind says whose that is"


@pytest.mark.parametrize(
    ("asked", "strange"),
    [("0000:3b:00.2", False), ("00000000:3B:00.2", False), ("0000:3b:00.4", True), ("x", True)],
)
def test_virtual_functions_are_those_of_the_device_that_is_there(asked: str, strange: bool) -> None:
    bus = "0000:3b:00.2"
    slot = DeviceSlot(kind="rdma", minor=0, uuid="0000:3b:00.0", functions=[DeviceFunction(bus=bus)])
    facts = replace(FACTS, inventory=NodeInventory(node="n", version=1, devices=[slot]))
    folder = f"/sys/bus/pci/devices/{bus}/infiniband_verbs"
    probe = FakeProbe(
        {f"{folder}/uverbs1": "", "/sys/bus/pci/devices/0000:3b:00.4/infiniband_verbs/uverbs2": ""},
        devices={f"/dev/infiniband/{name}": (231, at) for at, name in enumerate(("rdma_cm", "uverbs1", "uverbs2"))},
    )
    record = {"minor": 0, "id": "0000:3b:00.0", "extension": {"vfs": [{"busID": asked}]}}
    found = edits_of(pod(devices={"rdma": [record]}), facts=facts, probe=probe)
    if not strange:
        assert isinstance(found, Edits)
        assert [each.path for each in found.nodes if "uverbs" in each.path] == ["/dev/infiniband/uverbs1"]
        return
    assert isinstance(found, Problem)
    assert found.field.endswith(".rdma[minor 0].extension.vfs")
    assert found.message == f"names {asked!r}, which is no virtual function of the device there"


def test_the_vendor_of_the_node_counts() -> None:
    facts = replace(FACTS, inventory=inventory(0, vendor="kunlun"))
    probe = FakeProbe(devices={"/dev/xpuctrl": (200, 255), "/dev/xpu0": (200, 0)})
    found = edits_of(pod(devices={"gpu": [gpu(0)]}), facts=facts, probe=probe)
    assert isinstance(found, Edits)
    assert [each.path for each in found.nodes] == ["/dev/xpuctrl", "/dev/xpu0"]
    assert not found.env


@pytest.mark.parametrize("case", cases("node-qos/gpu-env"))
def test_gpu_env(case: dict[str, Any]) -> None:
    told, expect = case["given"], case["expect"]
    provider = told.get("isolation_provider")
    of = pod(
        annotations={names.ANNOTATION_DEVICE_ALLOCATED: told["device_allocated"] or ""},
        labels={names.LABEL_GPU_ISOLATION: provider} if provider else {},
    )
    of.uid = told["pod_uid"]
    facts = replace(KNOWN, monitors=told.get("vgpu_monitor", False))
    found = edits_of(of, told["container"], facts)
    if expect.get("error"):
        assert isinstance(found, Problem)
        return
    assert isinstance(found, Edits)
    answer = adjustment(container_seen(container(of, told["container"])), found, Wanted(), read_only=frozenset())
    assert answer.env == expect["env"]
    assert [[each.source, each.destination] for each in answer.mounts] == expect["mounts"]
