from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cli.lines import _LINES, event_line, grants_text, held_lines, reason_line
from berth.contracts import event, names
from berth.contracts.base import Problem, Reason
from berth.contracts.codec import encode
from berth.contracts.event import BatchBound
from berth.contracts.grants import as_devices, device, function, one
from berth.contracts.ledger import Grant, Victim

EVICTION = {
    "namespace": "c",
    "name": "d",
    "uid": "v",
    "node": "n",
    "plan": "p",
    "beneficiary": "a/b",
    "beneficiary_uid": "u",
    "reason": "PreemptionByScheduler",
}


FINDING = {
    "namespace": "a",
    "name": "p",
    "uid": "u",
    "node": "n",
    "kind": "lacking",
    "message": "began without env X",
}


def gpu(minor: int, percent: int) -> Grant:
    return device("gpu", minor, {names.GPU_CORE: percent})


def test_whole_devices_are_listed_together_and_shares_with_their_percent() -> None:
    assert grants_text([gpu(0, 100), gpu(1, 100)]) == "gpu 0,1"
    assert grants_text([gpu(3, 40)]) == "gpu 3 (40 %)"
    assert grants_text([]) == ""
    assert grants_text([device("rdma", 0, {names.RDMA: 1}), function("0000:1f:00.1", "rdma", 0)]) == (
        "vf 0000:1f:00.1, rdma 0 (1 %)"
    )


def test_cpus_and_zones_that_were_granted_are_lists() -> None:
    zone = Grant(kind="zone", id="2", amounts={"cpu": 4000, "memory": 1 << 30})
    granted = [gpu(0, 100), *(one("cpu", str(cpu)) for cpu in (0, 1, 2, 8)), zone]
    assert grants_text(granted) == "gpu 0, zone 2, cpus 0-2,8"
    assert held_lines(granted) == [("devices", "gpu 0"), ("cpus", "0-2,8"), ("zones", "2 (cpu 4, memory 1Gi)")]


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (
            event.PlacementBound(
                namespace="ml",
                name="train-0",
                uid="u",
                node="n1",
                plan="p",
                devices=as_devices([gpu(2, 50)]),
                quota="/ml",
                gang="ml/train",
                latency_ms=12.4,
            ),
            ("bound", "ml/train-0", "n1", "gpu 2 (50 %)", "quota ml", "gang ml/train", "12 ms"),
        ),
        (
            event.PlacementDecided(plan="p", pods=["a/b", "a/c", "a/d", "a/e"], nodes=["n"] * 4, took_ms=3.0),
            ("decided", "4 pods in 3 ms", "a/b on n", "..."),
        ),
        (
            event.PlacementUnschedulable(namespace="a", name="b", uid="u", message="no capacity"),
            ("refused", "a/b", "no capacity"),
        ),
        (
            event.PlacementUnschedulable(namespace="", name="nightly", uid="u", message="no capacity"),
            ("refused     reservation/nightly  no capacity",),
        ),
        (
            event.PlacementBounded(
                plan="p",
                bound=BatchBound(status="bounded", pods=9, placed=7, priority=5, objective=6, bound=8, gap=0.25),
            ),
            ("judged", "7 of 9 pods placed", "2 more of priority 5 at most"),
        ),
        (
            event.PlacementBounded(
                plan="p", bound=BatchBound(status="optimal", pods=9, placed=7, objective=7, bound=7, gap=0.0)
            ),
            ("judged", "7 of 9 pods placed", "no plan places more"),
        ),
        (
            event.PlacementBounded(plan="p", bound=BatchBound(status="unknown", pods=9, placed=7, problem="late")),
            ("judged", "7 of 9 pods placed", "unknown: late"),
        ),
        (event.PlacementDecided(plan="p", pods=["/r"], nodes=["n"], took_ms=3.0), ("reservation/r on n",)),
        (event.EvictionSent(**{**EVICTION, "beneficiary": "/quota:tree:team"}), ("for quota tree/team",)),
        (event.EvictionSent(**{**EVICTION, "beneficiary": "/quota::team"}), ("for quota team",)),
        (event.EvictionSent(**{**EVICTION, "beneficiary": "/nightly"}), ("for reservation/nightly",)),
        (event.EvictionSent(**{**EVICTION, "beneficiary": "/node:n1"}), ("for node n1",)),
        (
            event.PlacementFailed(namespace="a", name="b", uid="u", node="n", plan="p", attempt=1, reason="gone"),
            ("withdrawn", "a/b", "gone"),
        ),
        (
            event.PlacementEnded(namespace="a", name="b", uid="u", node="n", plan="p", reason="deleted"),
            ("ended", "a/b", "n", "deleted"),
        ),
        (
            event.PlacementNominated(
                plan="p",
                namespace="a",
                name="b",
                uid="u",
                node="n",
                reason="r",
                victims=[Victim(namespace="c", name="d", uid="v", version=1, node="n")],
            ),
            ("nominated", "a/b", "n", "c/d"),
        ),
        (event.EvictionMarked(**EVICTION), ("marked", "c/d", "n", "for a/b")),
        (event.EvictionSent(**EVICTION), ("evicted", "c/d", "n", "for a/b")),
        (event.EvictionRefused(**EVICTION, message="a budget"), ("not evicted", "c/d", "for a/b", "a budget")),
        (event.EvictionSpared(**EVICTION, message="it is gone"), ("spared", "c/d", "for a/b", "it is gone")),
        (
            event.NominationWithdrawn(
                plan="p", namespace="a", name="b", uid="u", node="n", attempt=1, reason="c/d does not end"
            ),
            ("given up", "a/b", "n", "c/d does not end"),
        ),
        (event.EpochRaised(epoch=3, reason="the ledger was lost"), ("epoch", "3", "the ledger was lost")),
        (event.QuotaChanged(tree="", group="ml", message="over its runtime"), ("quota", "ml", "over its runtime")),
        (event.ReservationChanged(name="r", phase="Available", node="n"), ("reservation", "r", "Available", "n")),
        (
            event.ObjectRefused(kind="Device", name="n", problems=[Problem(field="spec.x", message="is odd")]),
            ("bad object", "Device n", "spec.x: is odd"),
        ),
        (
            event.GangScattered(namespace="a", name="g", layer="Block", domains={"s1/b1": 2, "s2/b3": 1}),
            ("scattered", "a/g", "Block s1/b1 (2), s2/b3 (1)"),
        ),
        (event.GangScattered(namespace="a", name="g", layer="Block", lasts=False), ("gathered", "a/g", "Block")),
        (event.NodeChanged(node="n", message="lost a GPU"), ("node", "n", "lost a GPU")),
        (event.FindingReported(**FINDING, container="c"), ("finding", "a/p", "c", "n", "began without env X")),
        (event.FindingReported(**FINDING, lasts=False), ("over", "a/p", "n", "began without env X")),
        (
            event.AuditReported(promise="I1", title="device-given-once", subject="node n", evidence="160 of 100"),
            ("difference", "I1 device-given-once", "160 of 100"),
        ),
        (
            event.AuditReported(promise="I1", title="device-given-once", subject="node n", lasts=False),
            ("no longer", "I1 device-given-once", "node n"),
        ),
    ],
)
def test_every_event_has_a_line_with_its_facts(message: event.Event, parts: tuple[str, ...]) -> None:
    line = event_line(encode(message))
    for part in parts:
        assert part in line
    assert "\n" not in line


def test_no_event_is_forgotten() -> None:
    assert set(_LINES) == set(get_args(event.Event))


@given(st.binary(max_size=200))
def test_garbage_becomes_a_line_and_never_an_exception(data: bytes) -> None:
    assert event_line(data).startswith("unreadable")


def test_a_reason_names_its_nodes_and_its_field_once() -> None:
    assert reason_line(Reason(code="x", message="Insufficient cpu", nodes=1)) == "on 1 node: Insufficient cpu"
    assert reason_line(Reason(code="x", message="odd", field="spec.a")) == "odd [spec.a]"
    assert reason_line(Reason(code="x", message="spec.a: odd", field="spec.a")) == "spec.a: odd"
