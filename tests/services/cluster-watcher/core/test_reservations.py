"""Reservations: what goes in and what comes out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.services.worlds.watcher.kinds import fields, read

from berth.contracts import kube, names
from berth.rules.reservation_stand_in import stand_in
from berth.testing.vectors import cases
from berth.transaction.claims import of_reservation


def reservation(spec: dict[str, Any], **more: Any) -> Any:
    whole = {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}} | spec
    return read("reservation", {"spec": whole} | more.pop("item", {}), **more)


def test_reservation() -> None:
    seen = reservation(
        {
            "template": {
                "metadata": {"namespace": "team", "labels": {"l": "1"}, "annotations": {"x/y": "z"}},
                "spec": {
                    "nodeName": "n1",
                    "priority": 5,
                    "nodeSelector": {"zone": "a"},
                    "schedulerName": "berth-scheduler",
                    "containers": [{"resources": {"requests": {"cpu": "2", "memory": "x"}}}],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {}}, {"name": "w", "flexVolume": {}}],
                },
            },
            "owners": [{"object": {"name": "p"}}],
            "ttl": "1h30m",
            "allocateOnce": False,
            "allocatePolicy": "Restricted",
            "unschedulable": True,
            "preAllocation": True,
        },
        item={
            "status": {
                "phase": "Available",
                "nodeName": "n1",
                "allocatable": {"cpu": "2"},
                "allocated": {"cpu": "-1"},
                "currentOwners": [{"uid": "p"}],
            }
        },
        annotations={names.ANNOTATION_ATTEMPT: "2"},
    )
    template = seen.template
    assert (seen.namespace, seen.required_node, seen.ttl_s, seen.expires) == ("team", "n1", 5400.0, "")
    assert (template.priority, template.requests, template.node_selector) == (5, {"cpu": 2000}, {"zone": "a"})
    marks = {
        names.ANNOTATION_RESERVE_POD: "true",
        names.ANNOTATION_RESERVATION_NAME: "a.b",
        names.ANNOTATION_RESERVATION_NODE: "n1",
    }
    assert (template.labels, template.annotations) == ({"l": "1"}, {names.ANNOTATION_ATTEMPT: "2", **marks})
    assert template.constraints == ["spec.template.spec.volumes[1].flexVolume"]
    assert (seen.allocate_once, seen.allocate_policy, seen.unschedulable, seen.pre_allocation) == (
        False,
        "Restricted",
        True,
        True,
    )
    assert (seen.phase, seen.node, seen.allocatable, seen.allocated, seen.attempt) == (
        "Available",
        "n1",
        {"cpu": 2000},
        {},
        2,
    )
    assert fields(seen) == [
        "spec.template.spec.containers[0].resources.requests[memory]",
        "spec.template.spec.volumes[0].persistentVolumeClaim.claimName",
        "status.allocated[cpu]",
    ]


@pytest.mark.parametrize("case", cases("reservation/reserve_pod"))
def test_what_stands_in_for_a_reservation(case: dict[str, Any]) -> None:
    told, expect = case["given"]["reservation"], case["expect"]
    template = told["template"]
    requests = {name: str(amount) for name, amount in template["requests"].items()}
    pod_spec = {key: template[key] for key in ("nodeName", "schedulerName", "priority") if key in template}
    spec = {**pod_spec, "containers": [{"resources": {"requests": requests}}]}
    meta = {key: template[key] for key in ("namespace", "labels", "annotations")}
    item = {"spec": {"template": {"metadata": meta, "spec": spec}}, "status": told["status"]}
    metadata = {key: told.get(key, {}) for key in ("name", "uid", "labels", "annotations")}
    seen = read("reservation", item, **metadata)
    read_item = msgspec.convert({"metadata": metadata, **item}, kube.Reservation)
    assert read_item.spec.template is not None
    placed_as = stand_in(read_item.metadata, read_item.spec.template)
    assert (seen.uid, seen.namespace, seen.node) == (expect["uid"], expect["namespace"], expect["nodeName"])
    assert (placed_as.labels, placed_as.annotations) == (expect["labels"], expect["annotations"])
    assert seen.template.labels == expect["labels"]
    assert (seen.template.scheduler, seen.template.priority) == (expect["schedulerName"], expect["priority"])
    assert of_reservation(seen).amounts == expect["requests"]


@pytest.mark.parametrize(
    ("spec", "ttl_s", "expires", "problems"),
    [
        ({}, 86_400.0, "", []),
        ({"ttl": "0"}, 0.0, "", []),
        ({"ttl": "0s"}, 0.0, "", []),
        ({"ttl": "24h", "expires": "2030-01-01T00:00:00Z"}, 86_400.0, "2030-01-01T00:00:00Z", []),
        ({"expires": "2030-01-01T00:00:00Z"}, None, "2030-01-01T00:00:00Z", []),
        ({"ttl": "-1h"}, None, "", ["spec.ttl"]),
        ({"ttl": "tomorrow"}, None, "", ["spec.ttl"]),
        ({"ttl": 5}, 86_400.0, "", ["spec.ttl"]),
        ({"expires": "soon"}, None, "", ["spec.expires"]),
    ],
)
def test_how_long_a_reservation_lives(spec: Any, ttl_s: float | None, expires: str, problems: list[str]) -> None:
    seen = reservation(spec)
    assert (seen.ttl_s, seen.expires, fields(seen)) == (ttl_s, expires, problems)
    assert seen.allocate_once
    assert seen.namespace == "default"


@pytest.mark.parametrize(
    ("labels", "priority", "problems"),
    [
        ({}, 2147483647, []),
        ({names.LABEL_PRIORITY: "9000"}, 9000, []),
        ({names.LABEL_PRIORITY: "high"}, 2147483647, [f"metadata.labels[{names.LABEL_PRIORITY}]"]),
    ],
)
def test_priority_of_a_reservation(labels: dict[str, str], priority: int, problems: list[str]) -> None:
    seen = reservation({}, labels=labels)
    assert (seen.template.priority, fields(seen)) == (priority, problems)
    assert seen.is_priority_set is (labels != {} and not problems)


def test_the_highest_priority_may_be_asked_for_by_name() -> None:
    assert reservation({}, labels={names.LABEL_PRIORITY: "2147483647"}).is_priority_set


def test_a_reservation_is_placed_for_what_it_is_resized_to() -> None:
    notes = {names.ANNOTATION_RESERVATION_RESIZE: '{"resources":{"cpu":"3","memory":"1Ki"}}'}
    assert reservation({}, annotations=notes).template.requests == {"cpu": 3000, "memory": 1024}
    placed = reservation({}, annotations=notes, item={"status": {"nodeName": "n", "phase": "Available"}})
    assert placed.template.requests == {"cpu": 2000}
    assert fields(reservation({}, annotations={names.ANNOTATION_RESERVATION_RESIZE: "["})) == [
        f"metadata.annotations[{names.ANNOTATION_RESERVATION_RESIZE}]"
    ]


def test_a_reservation_without_a_readable_template() -> None:
    assert fields(read("reservation", {"spec": {}})) == ["spec.template"]
    seen = read("reservation", {"spec": {"template": {"spec": {"containers": "x", "nodeName": "n"}}}})
    assert (fields(seen), seen.required_node) == (["spec.template.spec.containers"], "n")
