"""From what containers hold to the cards of each pod: all of them, or nothing is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.cluster_watcher.core.devices import device_of
from berth.contracts import kube, names
from berth.contracts.node_report import HeldByContainer, NodeReport, ReportedDevice
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.core.device_object import device_object, shows
from berth.device_inventory.core.kubelet_cards import kubelet_cards
from berth.rules.devices.kubelet_cards import FIELD

CARDS = [ReportedDevice(kind="gpu", minor=each, id=f"GPU-{each}", bus=f"0000:0{each}:00.0") for each in range(4)]
NIC = ReportedDevice(kind="rdma", minor=0, id="GPU-9")


def holder(uid: str, *ids: str, name: str = names.NVIDIA_GPU, container: str = "c") -> HeldByContainer:
    return HeldByContainer(namespace="ns", pod="p", container=container, devices={name: list(ids)}, uid=uid)


def report(*held: HeldByContainer, **more: Any) -> NodeReport:
    parts = {"devices": 1, "held": 1}
    return NodeReport(node="n", version=1, **{"parts": parts, "devices": [*CARDS, NIC], "held": list(held), **more})


def test_the_cards_of_each_pod() -> None:
    held = [holder("a", "GPU-2"), holder("a", "GPU-2", "GPU-0", container="d"), holder("b", "0000:03:00.0")]
    assert kubelet_cards(report(*held)) == {"a": [0, 2], "b": [3]}


@pytest.mark.parametrize(
    "held",
    [
        [holder("", "GPU-1")],
        [holder("a", "GPU-1", "GPU-1::3")],
        [holder("a", "GPU-9")],
        [holder("a", "GPU-1", name="example.org/gpu")],
        [holder("a", "GPU-1"), holder("b", "GPU-1", "GPU-0")],
        [holder("a")],
    ],
)
def test_what_is_not_certain_is_not_said(held: list[HeldByContainer]) -> None:
    assert kubelet_cards(report(*held)) == {}


def test_without_a_look_nothing_is_said() -> None:
    assert kubelet_cards(report(holder("a", "GPU-1"), parts={"devices": 1})) == {}


def test_the_word_goes_by_the_object_into_the_inventory() -> None:
    made = device_object(report(holder("a", "GPU-1")))
    assert made is not None
    meta = {"name": "n", "uid": "u", "resourceVersion": "5", "labels": made.labels, "annotations": made.annotations}
    device = device_of(msgspec.convert({"metadata": meta, "spec": made.spec}, kube.Device), 5)
    assert inventory_of(device).kubelet_cards == {"a": [1]}
    assert shows(device, made)
    other = device_object(report())
    assert other is not None
    assert not shows(device, other)
    device.annotations[names.ANNOTATION_KUBELET_CARDS] = "{"
    found = inventory_of(device)
    assert found.kubelet_cards == {}
    assert FIELD in {problem.field for problem in found.problems}
    del device.annotations[names.ANNOTATION_KUBELET_CARDS]
    assert shows(device, other), "one that says nothing says that nobody holds any"
