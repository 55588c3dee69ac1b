"""A vendor that nobody has heard of, from its devices through request, choice and bind to a container that has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.vendors.abacus import MACHINE, VENDORS
from tests.libs.vendors.of_record import edits_of_record

from berth.cluster_writer.core import handing
from berth.contracts import names
from berth.contracts.state import Device, DeviceInfo
from berth.device_inventory.core.count import inventory_of
from berth.placement_solver.core import explain
from berth.placement_solver.core.devices import node_rules
from berth.resources.amounts import parse_amounts
from berth.testing.builders import pod
from berth.vendors.discovery import discover
from berth.vendors.report import device_spec, labels_of
from berth.vendors.vendor import Container, DeviceNode, Edits, HandOff

ABACUS = frozenset({"abacus"})


def found() -> Device:
    """The Device object that is made of what its machine has."""
    seen = discover(MACHINE, VENDORS)
    spec, _ = device_spec(seen, {}, "2026-01-01T00:00:00Z")
    return Device(
        name="n",
        uid="u",
        version=1,
        labels=labels_of(seen),
        devices=[
            DeviceInfo(
                kind=each["type"],
                minor=each["minor"],
                uuid=each["id"],
                healthy=each["health"],
                amounts=parse_amounts(each["resources"], "resources")[0],
                position=at,
            )
            for at, each in enumerate(spec)
        ],
    )


def test_the_whole_loop(solving: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_rules, "REGISTRY", VENDORS)
    monkeypatch.setattr(handing, "REGISTRY", VENDORS)
    device = found()
    inventory = inventory_of(device)
    run = solving(handed_off=ABACUS)
    run.node("n")
    run.devices("n", inventory.devices, gpu_vendor=inventory.gpu_vendor)

    run.pod(pod("two").requests({names.KOORD_GPU: 200}))
    (refusal,) = run.round().refusals
    assert "node(s) of abacus give out 1 device(s) per pod" in explain.message(refusal.reasons, 1)
    run.delete_pod("two")

    run.pods([pod("half").requests({names.KOORD_GPU: 50}), pod("whole").requests({names.KOORD_GPU: 100})])
    assert run.nodes_of(run.round()) == {"half": "n", "whole": "n"}
    decision = run.cluster.book.ledger.decisions["default", "whole"].decision
    record = decision.annotations[names.ANNOTATION_DEVICE_ALLOCATED]
    told = handing.handed(handing.bind_of(decision, {}, device, ABACUS, 5), device)
    assert isinstance(told, HandOff)
    assert told.lock == "abacus.example/lock"
    given = told.annotations["abacus.example/given"]
    assert given in ("ABC-abacus0", "ABC-abacus1")

    edits = edits_of_record(record, Container(pod_uid="u", name="c"), MACHINE, gpu_vendor="abacus", registry=VENDORS)
    assert isinstance(edits, Edits)
    assert edits.env == {"ABACUS_IDS": given}
    node = DeviceNode(path="/dev/abacus1", major=240, minor=1)
    assert edits.nodes == ((node,) if given == "ABC-abacus1" else ())
